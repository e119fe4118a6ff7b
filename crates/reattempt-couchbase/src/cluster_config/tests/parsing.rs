use proptest::prelude::*;

use crate::cluster_config::*;
use crate::testing::bucket;

fn parsed(json: &str) -> ClusterConfig {
    ClusterConfig::parse(json.as_bytes(), "10.9.9.9").unwrap()
}

fn refused(json: &str) -> String {
    ClusterConfig::parse(json.as_bytes(), "10.9.9.9")
        .unwrap_err()
        .faults()[0]
        .to_string()
}

fn kv(config: &ClusterConfig, network: &Network) -> Vec<String> {
    let addresses = config.addresses(Service::Kv, false, network);
    addresses.map(|address| address.to_string()).collect()
}

const NODES: &str = r#"{"rev": 1, "nodesExt": [
    {"hostname": "10.0.0.1", "thisNode": true, "nodeUUID": "u1", "services": {"kv": 11210, "kvSSL": 11207, "n1ql": 8093},
     "alternateAddresses": {"external": {"hostname": "ext.example", "ports": {"kv": 31210}}}},
    {"hostname": "fd63::8be", "services": {"kv": 11210},
     "alternateAddresses": {"external": {"hostname": "ext.example"}}},
    {"hostname": "$HOST", "services": {"mgmt": 8091}}
]}"#;

#[test]
fn nodes_have_services_in_each_network() {
    let config = parsed(NODES);
    assert_eq!(config.bucket(), None);
    assert!(config.vbuckets().is_none() && config.route(b"k").is_none());
    let default = kv(&config, &Network::Default);
    assert_eq!(default, ["10.0.0.1:11210", "[fd63::8be]:11210"]);
    let external = kv(&config, &Network::external());
    assert_eq!(external, ["ext.example:31210", "ext.example:11210"]);
    let first = &config.nodes()[0];
    assert_eq!(first.uuid(), Some("u1"));
    let query = first.address(Service::Query, false, &Network::external());
    assert_eq!(query, None, "alternate ports replace all of them");
    let tls = first.address(Service::Kv, true, &Network::Default);
    assert_eq!(tls.unwrap().port(), 11207);
    assert_eq!(config.nodes()[2].hostname(), "10.9.9.9");
}

#[test]
fn the_network_is_the_one_in_which_a_node_has_the_seeds_host() {
    let config = parsed(NODES);
    let network = |host, port| config.network_of(&Address::new(host, port));
    assert_eq!(network("10.0.0.1", 11210), Network::Default);
    assert_eq!(network("[FD63::8be]", 1), Network::Default);
    assert_eq!(network("ext.example", 31210), Network::external());
    assert_eq!(network("ext.example", 1), Network::external());
    assert_eq!(network("elsewhere", 11210), Network::Default);
    let one_host = parsed(
        r#"{"nodesExt": [{"hostname": "127.0.0.1", "services": {"kv": 11210},
            "alternateAddresses": {"external": {"hostname": "127.0.0.1", "ports": {"kv": 31210}}}}]}"#,
    );
    let seen = |port| one_host.network_of(&Address::new("127.0.0.1", port));
    assert_eq!(
        seen(31210),
        Network::external(),
        "the port distinguishes them"
    );
    assert_eq!(seen(11210), Network::Default);
}

/// An IPv6 address has many texts.
#[test]
fn a_seed_of_ipv6_is_known_however_it_is_written() {
    let config = parsed(
        r#"{"nodesExt": [
            {"hostname": "fd00:0:0::1", "services": {"kv": 11210}, "alternateAddresses": {"external": {
                "hostname": "2001:db8:0:0:0:0:0:1"}}},
            {"services": {"kv": 11210}, "hostname": "$HOST"}],
        "vBucketServerMap": {"serverList": ["[FD00::0001]:11210"], "vBucketMap": [[0]]}}"#,
    );
    for text in ["[2001:db8::1]:11210", "[2001:0DB8:0::0:1]:11210"] {
        let network = config.network_of(&text.parse().unwrap());
        assert_eq!(network, Network::external(), "{text}");
    }
    let inside = config.network_of(&"[fd00:0::1]:11210".parse().unwrap());
    assert_eq!(inside, Network::Default);
    assert_eq!(config.nodes().len(), 2, "the server is the first node");
    assert_eq!(config.nodes()[0].hostname(), "fd00::1");
    for (written, kept) in [
        ("[2001:DB8:0:0::0:1]:1", "[2001:db8::1]:1"),
        ("[fe80:0::1%Eth0]:1", "[fe80::1%Eth0]:1"),
        ("[::ffff:1.2.3.4]:1", "[::ffff:1.2.3.4]:1"),
        ("Node.example:1", "Node.example:1"),
    ] {
        let address: Address = written.parse().unwrap();
        assert_eq!(address.to_string(), kept);
        assert_eq!(Address::new(address.host(), 1), address);
    }
}

#[test]
fn a_seed_with_an_alternate_address_selects_that_network() {
    let config = parsed(NODES);
    let by = |seeds: &[(&str, u16)]| {
        let seeds = seeds.iter().map(|(host, port)| Address::new(host, *port));
        NetworkChoice::by_seeds(seeds).of(&config)
    };
    assert_eq!(by(&[("10.0.0.1", 11210)]), Network::Default);
    assert_eq!(
        by(&[("gone", 1), ("ext.example", 31210)]),
        Network::external()
    );
    assert_eq!(by(&[]), Network::Default);
    let always = NetworkChoice::from(Network::external());
    assert_eq!(always.of(&config), Network::external());
}

#[test]
fn a_network_that_was_found_stays_when_its_seed_has_left() {
    let of_seed = NetworkChoice::by_seeds([Address::new("ext.example", 31210)]);
    let later = parsed(&NODES.replace("ext.example", "other.example"));
    assert_eq!(
        of_seed.of(&later),
        Network::Default,
        "nothing was found yet"
    );
    assert_eq!(of_seed.of(&parsed(NODES)), Network::external());
    assert_eq!(of_seed.clone().of(&later), Network::external());
}

/// A forged configuration may name any network.
#[test]
fn a_network_that_no_node_has_any_more_is_not_kept() {
    let of_seed = NetworkChoice::by_seeds([Address::new("ext.example", 31210)]);
    let other = Network::Alternate("other".into());
    assert_eq!(
        of_seed.of(&parsed(&NODES.replace("external", "other"))),
        other
    );
    assert_eq!(of_seed.of(&parsed(NODES)), Network::external());
    let left = NODES.replace("ext.example", "other.example");
    assert_eq!(of_seed.of(&parsed(&left)), Network::external());
    let inside = r#"{"nodesExt": [{"hostname": "ext.example", "services": {"kv": 31210}}]}"#;
    assert_eq!(of_seed.of(&parsed(inside)), Network::Default);
    assert_eq!(of_seed.of(&parsed(NODES)), Network::external());
}

#[test]
fn a_missing_hostname_is_the_older_lists_or_else_the_origin() {
    let alone = r#"{"nodesExt": [{"services": {"kv": 1}}]}"#;
    assert_eq!(parsed(alone).nodes()[0].hostname(), "10.9.9.9");
    let older =
        r#"{"nodesExt": [{"services": {"kv": 1}}], "nodes": [{"hostname": "1.2.3.4:8091"}]}"#;
    assert_eq!(parsed(older).nodes()[0].hostname(), "1.2.3.4");
    let unknown = ClusterConfig::parse(alone.as_bytes(), "").unwrap_err();
    assert_eq!(
        unknown.faults()[0].to_string(),
        "$.nodesExt[0].hostname: is the host that the configuration came from, which is unknown"
    );
    let only_older = r#"{"nodes": [{"hostname": "[::1]:8091", "ports": {"direct": 11210}}]}"#;
    assert_eq!(kv(&parsed(only_older), &Network::Default), ["[::1]:11210"]);
}

/// The key "foo" is in vbucket 115 of 1024, and in 3 of 4.
#[test]
fn a_key_is_routed_by_its_vbucket() {
    assert_eq!(vbucket_of(b"foo", 1024), Some(115));
    assert_eq!(vbucket_of(b"foo", 0), None);
    let json = r#"{"name": "b", "nodesExt": [
            {"hostname": "a", "services": {"kv": 1}}, {"hostname": "$HOST", "services": {"kv": 2}}],
        "vBucketServerMap": {"hashAlgorithm": "CRC", "serverList": ["$HOST:2", "a:1", "gone:3"],
            "vBucketMap": [[0, 1], [0, -1], [0], [2, 0]],
            "vBucketMapForward": [[1, 0], [1, 0], [1, 0], [1, 0]]}}"#;
    let config = parsed(json);
    let map = config.vbuckets().unwrap();
    assert_eq!((map.len(), map.copies()), (4, 2));
    let route = config.route(b"foo").unwrap();
    assert_eq!((route.vbucket, route.node), (3, Some(2)));
    let node = &config.nodes()[2];
    assert_eq!(
        node.hostname(),
        "gone",
        "a server that is in no list of nodes"
    );
    assert_eq!(map.node(0, 0), Some(1), "server 0 is the second node");
    assert_eq!((map.node(0, 1), map.node(1, 1)), (Some(0), None));
    assert_eq!(
        (map.node(2, 1), map.node(4, 0), map.node(0, 2)),
        (None, None, None)
    );
    assert!(map.is_changing());
    assert_eq!(map.forward_node(3, 0), Some(0));
}

#[test]
fn a_new_bucket_has_no_vbuckets_yet() {
    let json = r#"{"name": "b", "nodesExt": [{"services": {"kv": 1}}],
        "vBucketServerMap": {"serverList": [], "vBucketMap": []}}"#;
    assert!(parsed(json).vbuckets().is_none());
}

#[test]
fn hostile_configurations_are_refused_with_the_place() {
    let good = bucket(1, 1, 2, 0);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        refused(&good.replacen(from, to, 1))
    };
    let expected = [
        (
            "\"rev\": 1",
            "\"rev\": -1",
            "$.rev: must be an integer from 0 to 2^63-1",
        ),
        (
            "\"rev\": 1",
            "\"rev\": 1e30",
            "$.rev: must be an integer from 0 to 2^63-1",
        ),
        (
            "\"revEpoch\": 1",
            "\"revEpoch\": \"1\"",
            "$.revEpoch: must be an integer from -2^63 to 2^63-1",
        ),
        (
            "\"name\": \"b\"",
            "\"name\": {}",
            "$.name: must be the bucket's name",
        ),
        (
            "\"n1\"",
            "\"a b\"",
            "$.nodesExt[0].hostname: must be a host name, an IPv4 address or an IPv6 address",
        ),
        (
            "\"n1\"",
            "\"n1:8091\"",
            "$.nodesExt[0].hostname: must be a host name, an IPv4 address or an IPv6 address",
        ),
        (
            "11210",
            "65536",
            "$.nodesExt[0].services.kv: must be a port from 1 to 65535",
        ),
        (
            "\"CRC\"",
            "\"MD5\"",
            "$.vBucketServerMap.hashAlgorithm: must be CRC",
        ),
        (
            "n2:11210",
            "n2",
            "$.vBucketServerMap.serverList[1]: must be host:port",
        ),
        (
            "[0, -1]",
            "[2, -1]",
            "$.vBucketServerMap.vBucketMap[0][0]: must be -1 or the number of a server in serverList",
        ),
        (
            "[0, -1]",
            "[0, -2]",
            "$.vBucketServerMap.vBucketMap[0][1]: must be -1 or the number of a server in serverList",
        ),
        (
            "[0, -1]",
            "[]",
            "$.vBucketServerMap.vBucketMap[0]: must be a list of 1 to 16 servers, the active one first",
        ),
        (
            "\"vBucketMap\"",
            "\"vBucketMapForward\": [[0]], \"vBucketMap\"",
            "$.vBucketServerMap.vBucketMapForward: must have as many vbuckets as vBucketMap",
        ),
    ];
    for (from, to, error) in expected {
        assert_eq!(with(from, to), error);
    }
    assert_eq!(
        refused("{\"nodesExt\": []}"),
        "$.nodesExt: must name at least one node"
    );
    assert_eq!(refused("7"), "$: must be an object, got 7");
    assert_eq!(
        refused(r#"{"nodeLocator": "vbucket", "nodesExt": [{"services": {}}]}"#),
        "$.vBucketServerMap: is missing, and the bucket is located by vbuckets"
    );
    let many = vec![r#"{"services": {}}"#; 4097].join(",");
    assert_eq!(
        refused(&format!(r#"{{"nodesExt": [{many}]}}"#)),
        "$.nodesExt: has more than 4096 nodes"
    );
    let deep = "[".repeat(1 << 20);
    assert!(refused(&deep).starts_with("$: not JSON"));
    let large = " ".repeat(MAX_BYTES + 1);
    assert!(refused(&large).contains("is refused: at most"));
}

/// Real servers send some.
#[test]
fn of_a_member_that_is_there_twice_the_last_one_counts() {
    let json = r#"{"rev": 1, "rev": 2, "nodesExt": [{"hostname": "a", "services": {
        "kv": 1, "kv": 2, "projector": 3, "projector": 4}}], "other": 1, "other": 2}"#;
    let (config, warnings) = ClusterConfig::parse_with_warnings(json.as_bytes(), "").unwrap();
    assert_eq!(config.revision().rev, 2);
    assert_eq!(kv(&config, &Network::Default), ["a:2"]);
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "$.rev: is there twice; the last one counts",
            "$.nodesExt[0].services.kv: is there twice; the last one counts",
        ]
    );
}

#[test]
fn addresses_are_read_as_they_are_printed() {
    for text in ["a.b-c_d:1", "1.2.3.4:65535", "[fe80::1%eth0]:11210"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
    for text in ["1.2.3.4:65535", "[::1]:11210"] {
        let address = text.parse::<std::net::SocketAddr>().unwrap();
        assert_eq!(Address::from(address).to_string(), text);
    }
    let refused = |text: &str| text.parse::<Address>().unwrap_err();
    for text in ["a", "a:", "a:0", "a:65536", "a:+1", ""] {
        assert_eq!(refused(text), AddressError::Port, "{text}");
    }
    assert_eq!(refused(":1"), AddressError::NoHost);
    for text in [
        "::1:1",
        "a/b:1",
        "a b:1",
        "[[a]]:1",
        "[a:b]:1",
        "[1.2.3.4:5]:1",
        "[::1%]:1",
        "[1::2::3]:1",
    ] {
        assert_eq!(refused(text), AddressError::Host, "{text}");
    }
}

fn mutated() -> impl Strategy<Value = String> {
    let words = prop_oneof![
        Just("[".to_owned()),
        Just("-1".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("\"$HOST\"".to_owned()),
        Just("\"$HOST:0\"".to_owned()),
        Just("null".to_owned()),
        Just("{}".to_owned()),
        any::<i32>().prop_map(|n| n.to_string()),
    ];
    let json = bucket(1, 1, 3, 1);
    let values: Vec<_> = json
        .match_indices([':', ',', '['])
        .map(|(at, _)| at + 1)
        .collect();
    (prop::sample::select(values), words).prop_map(move |(at, word)| {
        let rest = json[at..].find([',', ']', '}']).unwrap_or(0);
        format!("{}{word}{}", &json[..at], &json[at + rest..])
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = ClusterConfig::parse(&bytes, "h");
    }

    #[test]
    fn no_change_of_a_value_panics(json in mutated(), key: Vec<u8>) {
        if let Ok(config) = ClusterConfig::parse(json.as_bytes(), "h") {
            let node = config.route(&key).and_then(|route| route.node);
            prop_assert!(node.is_none_or(|node| node < config.nodes().len()));
        }
    }

    #[test]
    fn no_text_panics_as_an_address(text: String) {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }
    }
}
