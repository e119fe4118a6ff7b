use std::time::Duration;

use super::{ConnectionString, UriError};
use crate::mongodb::client::ReadPreference;

fn read(text: &str) -> ConnectionString {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> UriError {
    text.parse::<ConnectionString>()
        .map(|_| ())
        .expect_err(text)
}

/// M9: retryReads is enabled unless it is switched off.
#[test]
fn the_defaults_are_those_of_drivers() {
    let read = read("mongodb://127.0.0.1");
    assert_eq!(read.options.seeds, ["127.0.0.1:27017"]);
    assert!(read.retry_reads && read.retry_writes && !read.enable_overload_retargeting);
    assert_eq!(
        read.options.server_selection_timeout,
        Duration::from_secs(30)
    );
    assert_eq!(read.options.heartbeat_frequency, Duration::from_secs(10));
    assert_eq!(read.options.max_pool_size, 100);
    assert_eq!(read.options.max_connecting, 2);
    assert_eq!((read.timeout, read.max_adaptive_retries), (None, None));
    assert_eq!(read.options.credential, None);
}

/// M11: the names are those of the specifications, in any case.
#[test]
fn all_options_of_the_contract_are_read() {
    let read = read(
        "mongodb://us%3Aer:p%40ss%25@A:1,[::1]:2/my%20db?retryReads=false&RETRYWRITES=false\
         &replicaSet=rs0&appName=a%20b&serverSelectionTimeoutMS=100&heartbeatFrequencyMS=200\
         &maxPoolSize=0&maxConnecting=3&waitQueueTimeoutMS=300&socketTimeoutMS=0&readPreference=nearest\
         &authMechanism=SCRAM-SHA-256&maxAdaptiveRetries=3&enableOverloadRetargeting=true\
         &timeoutMS=400&loadBalanced=false&compressors=zlib",
    );
    assert_eq!(read.options.seeds, ["a:1", "[::1]:2"]);
    assert_eq!(read.database.as_deref(), Some("my db"));
    assert!(!read.retry_reads && !read.retry_writes && read.enable_overload_retargeting);
    assert_eq!(read.options.replica_set.as_deref(), Some("rs0"));
    assert_eq!(read.options.app_name.as_deref(), Some("a b"));
    assert_eq!(
        read.options.server_selection_timeout,
        Duration::from_millis(100)
    );
    assert_eq!(read.options.heartbeat_frequency, Duration::from_millis(200));
    assert_eq!(read.options.max_pool_size, 0);
    assert_eq!(read.options.max_connecting, 3);
    assert_eq!(
        read.options.wait_queue_timeout,
        Some(Duration::from_millis(300))
    );
    assert_eq!(read.options.socket_timeout, None);
    assert_eq!(read.options.read_preference, ReadPreference::Nearest);
    assert_eq!(read.max_adaptive_retries, Some(3));
    assert_eq!(read.timeout, Some(Duration::from_millis(400)));
    let credential = read.options.credential.unwrap();
    assert_eq!(
        (&*credential.username, &*credential.password),
        ("us:er", "p@ss%")
    );
    assert_eq!(credential.source, "my db");
    let printed = format!("{credential:?}");
    assert!(!printed.contains("p@ss") && !printed.contains("us:er"));
    assert_eq!(
        read.warnings,
        ["option compressors: not known, does nothing"]
    );
}

#[test]
fn a_host_that_is_named_twice_is_one_seed() {
    let twice = read("mongodb://a,B:1,A:27017/?directConnection=false");
    assert_eq!(twice.options.seeds, ["a:27017", "b:1"]);
    let direct = read("mongodb://a,A:27017/?directConnection=true");
    assert_eq!(direct.options.seeds, ["a:27017"]);
}

#[test]
fn the_path_may_be_missing_and_the_source_be_named() {
    assert!(
        read("mongodb://h?directConnection=true")
            .options
            .direct_connection
    );
    let read = read("mongodb://u:@h/db?authSource=other");
    assert_eq!(read.options.credential.unwrap().source, "other");
}

#[test]
fn what_cannot_be_used_says_where_and_why() {
    assert_eq!(refused("http://h"), UriError::Scheme { srv: false });
    assert_eq!(refused("mongodb+srv://h"), UriError::Scheme { srv: true });
    for hosts in [
        "", "a,,b", "h:", "h:0", "h:65536", "h:x", "::1", "[::1", "[]:1", "a:b:1", ":1",
    ] {
        let error = refused(&format!("mongodb://{hosts}/"));
        assert!(matches!(error, UriError::Host { .. }), "{hosts}: {error}");
    }
    let user = |user: &str| refused(&format!("mongodb://{user}@h/"));
    assert_eq!(user("a@b:c"), UriError::Reserved('@'));
    assert_eq!(user("a:b:c"), UriError::Reserved(':'));
    assert!(matches!(user("name"), UriError::Conflict(_)));
    assert!(matches!(user(":p"), UriError::Conflict(_)));
    let part = "password".to_owned();
    assert_eq!(
        user("a:xy%4"),
        UriError::Percent {
            part: part.clone(),
            at: 2
        }
    );
    assert_eq!(user("a:x%ff"), UriError::Percent { part, at: 1 });
    let option = |option: &str| refused(&format!("mongodb://h/?{option}"));
    assert_eq!(option("retryReads"), UriError::Form(1));
    assert_eq!(option("retryReads=true&=1"), UriError::Form(2));
    for broken in [
        "retryReads=yes",
        "maxPoolSize=-1",
        "maxPoolSize=+1",
        "maxPoolSize=",
        "maxConnecting=0",
        "serverSelectionTimeoutMS=0",
        "timeoutMS=1.5",
        "socketTimeoutMS=99999999999",
        "readPreference=Primary",
        "replicaSet=",
    ] {
        let error = option(broken);
        assert!(matches!(error, UriError::Value { .. }), "{broken}: {error}");
        assert!(
            error
                .to_string()
                .contains(broken.split('=').next().unwrap()),
            "{error}"
        );
    }
    assert_eq!(
        option("retryReads=true&retryreads=true"),
        UriError::Twice("retryreads".to_owned())
    );
    let tags = "mongodb://a/?readPreferenceTags=dc:ny&readPreferenceTags=";
    assert_eq!(read(tags).warnings.len(), 2);
    for name in ["loadBalanced=true", "tls=true", "authMechanism=PLAIN"] {
        assert!(
            matches!(option(name), UriError::Unsupported { .. }),
            "{name}"
        );
    }
    assert!(matches!(
        option("authMechanism=SCRAM-SHA-256"),
        UriError::Conflict(_)
    ));
    let both = refused("mongodb://a,b/?directConnection=true");
    assert!(matches!(both, UriError::Conflict(_)));
}

/// Only a warning would let the data that should be encrypted be sent in plain text.
#[test]
fn options_of_tls_are_refused_without_their_values() {
    for name in [
        "tlsCAFile",
        "tlsCertificateKeyFilePassword",
        "TLSINSECURE",
        "tlsAllowInvalidCertificates",
        "sslPEMKeyPassword",
        "%74lsFuture",
    ] {
        let error = refused(&format!("mongodb://h/?{name}=hunter2&x"));
        assert!(matches!(error, UriError::Tls(_)), "{name}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{name}");
    }
    assert_eq!(read("mongodb://h/?tls=false&SSL=false").warnings.len(), 0);
}

/// The part before the slash was parsed as a host, and the error contained it.
#[test]
fn a_password_that_is_not_encoded_is_in_no_error() {
    for reserved in ['/', '?'] {
        let error = refused(&format!("mongodb://user:hunter2{reserved}3@h:1/db"));
        assert_eq!(error, UriError::Reserved(reserved));
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    // The part before the reserved character is a valid host and port.
    for (reserved, secret) in [('/', "27017/hunter2"), ('?', "27017?hunter2")] {
        let error = refused(&format!("mongodb://user:{secret}@h:1/db"));
        assert_eq!(error, UriError::Reserved(reserved));
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    // A name or password with an `@` too, so that the rest looks like a host or an option.
    for text in [
        "user:p@ss?hunter2@h/db",
        "user:p@ss?hunter2=x@h/db",
        "user:27017?hunter2=x@h/db",
        "alice@corp.com:hunter2/x@h/db",
        "user:p@x:hunter2/x@h/db",
        "user:p@x,:hunter2/x@h/db",
        "user:p@ss?retryReads=hunter2@h/db",
    ] {
        let error = refused(&format!("mongodb://{text}"));
        assert!(matches!(error, UriError::Reserved(_)), "{text}: {error}");
    }
    // Without an `@`, or with one that is encoded, the password stands where the port would.
    for (text, host) in [
        ("user:hunter2", "user"),
        ("user:hunter2%40h", "user"),
        ("user:hunter2%40h:1", "user"),
        ("user%3Ahunter2%40h", "user"),
        ("user:hunter2.sock", "user"),
        (":hunter2", ""),
        ("[user:hunter2", "[user"),
        ("[::1]:hunter2", "[::1]"),
        ("[::1]hunter:2", "[::1]"),
    ] {
        match refused(&format!("mongodb://{text}/db")) {
            UriError::Host { host: told, .. } => assert_eq!(told, host, "{text}"),
            error => panic!("{text}: {error}"),
        }
    }
    for (text, at) in [
        ("mongodb://h/db?appName=a@b", "a@b"),
        ("mongodb://u:p@h/?appName=@", "@"),
    ] {
        let read = read(text);
        assert_eq!(read.options.app_name.as_deref(), Some(at));
    }
    // What comes after the last `@` is no part of a password.
    let unknown = read("mongodb://u:p@h/?appName=a@b&compressors=zstd");
    let warning = "option compressors: not known, does nothing";
    assert_eq!(unknown.warnings, [warning]);
    let wrong = refused("mongodb://u:p@h/?appName=a@b&retryReads=7");
    assert!(wrong.to_string().contains("retryReads"), "{wrong}");
}
