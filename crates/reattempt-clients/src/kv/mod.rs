//! Couchbase's key-value protocol (memcached binary): the frame codec, and a small client.
//!
//! [`Connection`], [`NodeClient`] and [`RoutedClient`] are plain tower services without retries.
//! The rest connects them to `reattempt` and `reattempt-couchbase`: [`report`] and [`StageLayer`]
//! for the recovery layer, [`map_of`], [`offer_to`] and [`fetch_over`] for the configuration.

pub mod client;
mod collection_ids;
mod collections;
pub mod feature;
pub mod frame;
mod glue;
pub mod sasl;
mod staging;
mod vbucket;

pub use client::{
    Bootstrap, ClientError, ClientOptions, CloseReason, Collection, ConnectFuture, Connection,
    ErrorContext, KvRequest, KvResponse, LookupSpec, NodeClient, NodeFuture, ResponseFuture,
    RoutedClient, RoutedFuture, SendStage,
};
pub use collection_ids::CollectionIds;
pub use collections::{CollectionClient, CollectionFuture};
pub use frame::{Frame, FrameError, Magic};
pub use glue::{fetch_over, fetch_with, keep_in, map_in, map_of, offer_to, report};
pub use staging::{Dialling, StageFuture, StageLayer, Staging};
pub use vbucket::{VbucketMap, vbucket_of};
