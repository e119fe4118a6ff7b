//! The operations that the client knows, with their usual commands.

use bson::oid::ObjectId;
use bson::{Bson, Document, doc};

/// The kind of an operation, which decides what may be done about its failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `find`.
    Find,
    /// `find` of one document.
    FindOne,
    /// `find` in batches of two, to be read to the end.
    FindBatch,
    /// `aggregate` that only reads.
    Aggregate,
    /// `aggregate` that ends in `$out`.
    AggregateOut,
    /// `aggregate` that ends in `$merge`.
    AggregateMerge,
    /// `count`, as estimatedDocumentCount sends it.
    Count,
    /// `aggregate` that counts.
    CountDocuments,
    /// `distinct`.
    Distinct,
    /// `listDatabases`.
    ListDatabases,
    /// `listCollections`.
    ListCollections,
    /// `listIndexes`.
    ListIndexes,
    /// `aggregate` that opens a change stream.
    Watch,
    /// `mapReduce`.
    MapReduce,
    /// `find`, through the generic command runner.
    RunCommandFind,
    /// `insert` of one document.
    InsertOne,
    /// `find` as the first command of a transaction.
    TxnFind,
    /// `getMore`.
    GetMore,
    /// Any other command, through the generic command runner.
    RunCommand,
}

impl Operation {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Find,
        Self::FindOne,
        Self::FindBatch,
        Self::Aggregate,
        Self::AggregateOut,
        Self::AggregateMerge,
        Self::Count,
        Self::CountDocuments,
        Self::Distinct,
        Self::ListDatabases,
        Self::ListCollections,
        Self::ListIndexes,
        Self::Watch,
        Self::MapReduce,
        Self::RunCommandFind,
        Self::InsertOne,
        Self::TxnFind,
        Self::GetMore,
        Self::RunCommand,
    ];

    /// Its name, for example `countDocuments`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::FindOne => "findOne",
            Self::FindBatch => "findBatch",
            Self::Aggregate => "aggregate",
            Self::AggregateOut => "aggregateOut",
            Self::AggregateMerge => "aggregateMerge",
            Self::Count => "count",
            Self::CountDocuments => "countDocuments",
            Self::Distinct => "distinct",
            Self::ListDatabases => "listDatabases",
            Self::ListCollections => "listCollections",
            Self::ListIndexes => "listIndexes",
            Self::Watch => "watch",
            Self::MapReduce => "mapReduce",
            Self::RunCommandFind => "runCommandFind",
            Self::InsertOne => "insertOne",
            Self::TxnFind => "txnFind",
            Self::GetMore => "getMore",
            Self::RunCommand => "runCommand",
        }
    }

    /// The operation of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|operation| operation.name() == name)
    }

    /// Whether it changes what the server holds, so that only a primary can do it.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::AggregateOut | Self::AggregateMerge | Self::InsertOne
        )
    }

    /// The list that comes with every answer that is ok; `None` where none has to.
    pub(super) fn list(self) -> Option<&'static str> {
        match self {
            Self::Find
            | Self::FindOne
            | Self::FindBatch
            | Self::Aggregate
            | Self::AggregateOut
            | Self::AggregateMerge
            | Self::CountDocuments
            | Self::ListCollections
            | Self::ListIndexes
            | Self::Watch
            | Self::RunCommandFind
            | Self::TxnFind => Some("firstBatch"),
            Self::GetMore => Some("nextBatch"),
            Self::Distinct => Some("values"),
            Self::ListDatabases => Some("databases"),
            // A `mapReduce` may write its results to a collection.
            Self::Count | Self::MapReduce | Self::InsertOne | Self::RunCommand => None,
        }
    }

    /// What it is with this command: an `aggregate` that was given a stage that writes is one that
    /// writes.
    pub(super) fn given(self, command: &Document) -> Self {
        let Ok(stages) = command.get_array("pipeline") else {
            return self;
        };
        let has = |name: &str| {
            let mut stages = stages.iter().filter_map(Bson::as_document);
            stages.any(|stage| stage.contains_key(name))
        };
        match self {
            Self::Aggregate | Self::CountDocuments | Self::Watch if has("$out") => {
                Self::AggregateOut
            }
            Self::Aggregate | Self::CountDocuments | Self::Watch if has("$merge") => {
                Self::AggregateMerge
            }
            other => other,
        }
    }

    /// Its usual command on a collection. Writing stages go to `<collection>_out`.
    pub(super) fn command(self, collection: &str) -> Document {
        let aggregate = |stages: Vec<Document>| {
            doc! { "aggregate": collection, "pipeline": stages, "cursor": {} }
        };
        let target = format!("{collection}_out");
        match self {
            Self::Find | Self::RunCommandFind | Self::TxnFind => {
                doc! { "find": collection, "filter": {} }
            }
            Self::FindOne => {
                doc! { "find": collection, "filter": {}, "limit": 1, "singleBatch": true }
            }
            Self::FindBatch => doc! { "find": collection, "filter": {}, "batchSize": 2 },
            Self::Aggregate => aggregate(vec![doc! { "$match": {} }]),
            Self::AggregateOut => aggregate(vec![doc! { "$out": target }]),
            Self::AggregateMerge => aggregate(vec![doc! { "$merge": { "into": target } }]),
            Self::Count => doc! { "count": collection },
            Self::CountDocuments => aggregate(vec![
                doc! { "$match": {} },
                doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } },
            ]),
            Self::Distinct => doc! { "distinct": collection, "key": "_id", "query": {} },
            Self::ListDatabases => doc! { "listDatabases": 1 },
            Self::ListCollections => doc! { "listCollections": 1, "filter": {}, "cursor": {} },
            Self::ListIndexes => doc! { "listIndexes": collection, "cursor": {} },
            Self::Watch => aggregate(vec![doc! { "$changeStream": {} }]),
            Self::MapReduce => doc! {
                "mapReduce": collection,
                "map": Bson::JavaScriptCode("function() { emit(1, 1); }".to_owned()),
                "reduce": Bson::JavaScriptCode(
                    "function(key, values) { return Array.sum(values); }".to_owned(),
                ),
                "out": { "inline": 1 },
            },
            Self::InsertOne => {
                doc! { "insert": collection, "documents": [{ "_id": ObjectId::new(), "x": 1 }] }
            }
            Self::GetMore => doc! { "getMore": 0_i64, "collection": collection },
            Self::RunCommand => doc! { "ping": 1 },
        }
    }
}
