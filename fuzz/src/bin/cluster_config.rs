//! A cluster configuration: no input panics, and every vbucket of an accepted one maps to one of
//! its nodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reattempt_couchbase::ClusterConfig;
use reattempt_couchbase::cluster_config::{Address, ConfigStore, Network, Service};

fuzz_target!(|json: &[u8]| {
    let Ok(config) = ClusterConfig::parse(json, "10.0.0.1") else {
        return;
    };
    for address in config.addresses(Service::Kv, false, &Network::Default) {
        let _ = config.network_of(&address);
        assert_eq!(
            address.to_string().parse::<Address>().as_ref(),
            Ok(&address)
        );
    }
    if let Some(map) = config.vbuckets() {
        for vbucket in 0..u16::try_from(map.len()).expect("at most 32768") {
            for copy in 0..map.copies() + 1 {
                let nodes = [map.node(vbucket, copy), map.forward_node(vbucket, copy)];
                assert!(
                    nodes
                        .into_iter()
                        .flatten()
                        .all(|node| node < config.nodes().len())
                );
            }
        }
    }
    let _ = config.route(json);
    let _ = ConfigStore::new().compare_and_swap(config);
});
