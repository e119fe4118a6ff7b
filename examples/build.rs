//! Generates the code of the tonic examples' services. Described in Rust, so that no protoc is
//! needed; a `.proto` file with tonic-prost-build gives the same.
//!
//! ```proto
//! package bakery;
//! service Counter {
//!     rpc Order(Note) returns (Note);
//!     rpc Menu(Note) returns (stream Note);
//!     rpc Pack(stream Note) returns (Note);
//!     rpc Chat(stream Note) returns (stream Note);
//! }
//! service Oven {
//!     rpc Bake(Note) returns (Note);
//! }
//! ```

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn method(name: &str, route: &str) -> MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type("crate::Note")
        .output_type("crate::Note")
        .codec_path("tonic_prost::ProstCodec")
}

fn main() {
    let counter = Service::builder()
        .package("bakery")
        .name("Counter")
        .comment("A bakery's counter, with a method of each kind.")
        .method(method("order", "Order").build())
        .method(method("menu", "Menu").server_streaming().build())
        .method(method("pack", "Pack").client_streaming().build())
        .method(
            method("chat", "Chat")
                .client_streaming()
                .server_streaming()
                .build(),
        )
        .build();
    let oven = Service::builder()
        .package("bakery")
        .name("Oven")
        .comment("A bakery's oven.")
        .method(method("bake", "Bake").build())
        .build();
    Builder::new().compile(&[counter, oven]);
}
