//! Bodies of not-my-vbucket responses.

use super::*;

/// C33, C50: the body determines what happens, but never prevents the call from reaching its key.
#[tokio::test]
async fn a_useless_body_leads_to_back_off_or_to_another_node() {
    let (cluster, client, key) = three_nodes().await;
    let options = || never_polls().floor(Duration::ZERO);
    let in_force = |rev: i64| {
        let config = cluster.node(0).config_json();
        let config = std::str::from_utf8(&config).expect("JSON");
        assert!(config.contains("\"rev\":1,"), "{config}");
        config.replace("\"rev\":1,", &format!("\"rev\":{rev},"))
    };
    let of_another_bucket = in_force(9).replace("\"name\":\"default\"", "\"name\":\"other\"");
    let bodies = [
        ("the same again", in_force(1), 0),
        ("an older one", in_force(0), 0),
        ("another bucket's", of_another_bucket, 0),
        ("none", String::new(), 1),
        ("no JSON", "junk".to_owned(), 1),
        ("cut off", in_force(2)[..300].to_owned(), 1),
        ("no object", "[1]".to_owned(), 1),
        ("null", "null".to_owned(), 1),
        ("an object of something else", "{}".to_owned(), 1),
        (
            "no revision",
            in_force(2).replace("\"rev\":2,", "\"rev\":-2,"),
            1,
        ),
        ("too deep", "[".repeat(100_000), 1),
    ];
    for (what, body, asked) in bodies {
        let (poller, fetches) = poller(&cluster, &client, options());
        let client = client.clone().config_poll(&poller);
        let refusal = Step::status(status::NOT_MY_VBUCKET).body(body);
        cluster.node(0).script().push(refusal);
        let ended = client.call(KvRequest::get(key.clone())).await;
        assert_eq!(
            (ended.value(), ended.info.attempts()),
            ("v".into(), 2),
            "{what}"
        );
        assert_eq!(ended.reasons(), [KV_NOT_MY_VBUCKET]);
        assert_eq!(ended.delays(), [1], "{what}");
        assert_eq!(rev(&client), Some((1, 1)), "{what}");
        // A millisecond may be too short for the fetch itself.
        until(|| fetches.count() == asked).await;
    }
    // Not UTF-8.
    let (poller, fetches) = poller(&cluster, &client, options());
    let client = client.config_poll(&poller);
    let refusal = Step::status(status::NOT_MY_VBUCKET).body(&b"\xff\xfe{\x00"[..]);
    cluster.node(0).script().push(refusal);
    assert_eq!(client.call(KvRequest::get(key)).await.value(), "v");
    until(|| fetches.count() == 1).await;
}
