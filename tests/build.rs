//! Generates the service code for the tests around tonic. The service is described here in Rust, so
//! that protoc is not needed.

use tonic_build::manual::{Builder, Method, Service};

fn method(name: &str, route: &str) -> tonic_build::manual::MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type("crate::Item")
        .codec_path("tonic_prost::ProstCodec")
}

fn main() {
    let cart = Service::builder()
        .package("shop")
        .name("Cart")
        .comment("A cart, with a method of each kind.")
        .method(method("add", "Add").output_type("crate::Receipt").build())
        .method(
            method("list", "List")
                .output_type("crate::Item")
                .server_streaming()
                .build(),
        )
        .method(
            method("fill", "Fill")
                .output_type("crate::Receipt")
                .client_streaming()
                .build(),
        )
        .method(
            method("swap", "Swap")
                .output_type("crate::Item")
                .client_streaming()
                .server_streaming()
                .build(),
        )
        .build();
    Builder::new().compile(&[cart]);
}
