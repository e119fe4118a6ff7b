//! Generates the code of the echo service. Described in Rust, so that no protoc is needed.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let echo = Service::builder()
        .package("wire")
        .name("Echo")
        .method(
            Method::builder()
                .name("say")
                .route_name("Say")
                .input_type("crate::Text")
                .output_type("crate::Text")
                .codec_path("tonic_prost::ProstCodec")
                .build(),
        )
        .build();
    Builder::new().compile(&[echo]);
}
