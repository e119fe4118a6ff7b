//! The code of the guides is that of the examples, which are compiled and run, and that of README
//! and of the crates' own pages is that of `examples/start`, which `.ci/start` compiles.

struct Guide {
    text: &'static str,
    examples: &'static [&'static str],
    least: usize,
}

const TONIC: Guide = Guide {
    text: include_str!("../../docs/tonic.md"),
    examples: &[
        include_str!("../examples/tonic_client.rs"),
        include_str!("../examples/grpc_hops.rs"),
        include_str!("../etcd/src/main.rs"),
    ],
    least: 13,
};
const HYPER: Guide = Guide {
    text: include_str!("../../docs/hyper.md"),
    examples: &[
        include_str!("../examples/hyper_client.rs"),
        include_str!("../examples/per_route_json.rs"),
        include_str!("../examples/kube_client.rs"),
    ],
    least: 5,
};
const REQWEST: Guide = Guide {
    text: include_str!("../../docs/reqwest.md"),
    examples: &[include_str!("../examples/reqwest_client.rs")],
    least: 5,
};
const KEY_VALUE: Guide = Guide {
    text: include_str!("../../docs/key-value.md"),
    examples: &[
        include_str!("../examples/kv_client.rs"),
        include_str!("../examples/query_client.rs"),
    ],
    least: 4,
};
const MONGODB: Guide = Guide {
    text: include_str!("../../docs/mongodb.md"),
    examples: &[include_str!("../examples/mongodb_driver.rs")],
    least: 4,
};

/// README and the crates' pages, each with the programs that its code is from.
const STARTS: [(&str, &str); 6] = [
    (
        include_str!("../../README.md"),
        concat!(
            include_str!("../start/hyper.rs"),
            include_str!("../start/tonic.rs")
        ),
    ),
    (
        include_str!("../../crates/reattempt/README.md"),
        include_str!("../start/function.rs"),
    ),
    (
        include_str!("../../crates/reattempt-http/README.md"),
        include_str!("../start/hyper.rs"),
    ),
    (
        include_str!("../../crates/reattempt-grpc/README.md"),
        include_str!("../start/tonic.rs"),
    ),
    (
        include_str!("../../crates/reattempt-couchbase/README.md"),
        include_str!("../start/key_value.rs"),
    ),
    (
        include_str!("../../crates/reattempt-mongodb/README.md"),
        include_str!("../start/mongodb.rs"),
    ),
];

/// Removes indentation, which changes when code is moved.
fn unindented(code: &str) -> String {
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn every_piece_is_in_an_example(guide: &Guide) {
    let count = pieces_found(guide.text, "```rust\n", guide.examples);
    assert!(count >= guide.least, "{count} pieces found");
}

fn pieces_found(text: &str, fence: &str, examples: &[&str]) -> usize {
    let examples: Vec<_> = examples.iter().map(|text| unindented(text)).collect();
    let mut count = 0;
    for piece in text.split(fence).skip(1) {
        let (code, _) = piece.split_once("```").expect("an end of the code");
        let code = unindented(code);
        assert!(
            examples.iter().any(|example| example.contains(&code)),
            "not in an example:\n{code}"
        );
        count += 1;
    }
    count
}

#[test]
fn the_first_lines_of_the_readmes_are_their_programs() {
    for (text, programs) in STARTS {
        assert!(pieces_found(text, "```rust,ignore\n", &[programs]) > 0);
    }
}

#[test]
fn the_guide_to_tonic_is_its_example() {
    every_piece_is_in_an_example(&TONIC);
}

#[test]
fn the_guide_to_hyper_is_its_example() {
    every_piece_is_in_an_example(&HYPER);
}

#[test]
fn the_guide_to_reqwest_is_its_example() {
    every_piece_is_in_an_example(&REQWEST);
}

#[test]
fn the_guide_to_key_value_clients_is_its_examples() {
    every_piece_is_in_an_example(&KEY_VALUE);
}

#[test]
fn the_guide_to_mongodb_is_its_example() {
    every_piece_is_in_an_example(&MONGODB);
}
