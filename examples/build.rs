//! Writes the code of the tonic example's service. Described here in Rust, so that no protoc is needed.

fn main() {
    let greeter = tonic_build::manual::Service::builder()
        .package("greeter")
        .name("Greeter")
        .comment("Says hello.")
        .method(
            tonic_build::manual::Method::builder()
                .name("say_hello")
                .route_name("SayHello")
                .input_type("crate::HelloRequest")
                .output_type("crate::HelloReply")
                .codec_path("tonic_prost::ProstCodec")
                .build(),
        )
        .build();
    tonic_build::manual::Builder::new().compile(&[greeter]);
}
