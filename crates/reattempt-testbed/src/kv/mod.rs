//! Couchbase's key-value protocol: the frame codec, a scripted node and cluster, and a small
//! client.
//!
//! [`Node`] and [`Cluster`] speak the memcached binary protocol as a Couchbase node does, and
//! follow a [`Script`]; [`Connection`], [`NodeClient`] and [`RoutedClient`] are plain tower
//! services without retries.

pub mod client;
mod closing;
mod collection_ids;
mod collections;
pub mod frame;
mod framing;
mod glue;

pub mod node;
pub mod opcode;
pub mod sasl;
mod staging;
pub mod status;
mod vbucket;

#[cfg(test)]
mod tests;

pub use client::{
    Bootstrap, ClientError, ClientOptions, CloseReason, ConnectFuture, Connection, ErrorContext,
    KvRequest, KvResponse, LookupSpec, NodeClient, NodeFuture, ResponseFuture, RoutedClient,
    RoutedFuture, SendStage,
};
pub use closing::{ClosingClient, ClosingFuture};
pub use collection_ids::CollectionIds;
pub use collections::{CollectionClient, CollectionFuture};
pub use frame::{Frame, FrameError, Magic};
pub use glue::{fetch_over, fetch_with, keep_in, map_in, map_of, offer_to, report};
pub use node::{Cluster, Node, NodeBuilder, Script, SeenRequest, Step, Store};
pub use staging::{Dialling, StageFuture, StageLayer, Staging};
pub use vbucket::{MapError, VbucketMap, vbucket_of};
