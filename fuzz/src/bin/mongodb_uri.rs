//! A MongoDB connection string: no text panics, and no password appears in the output.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reattempt_clients::mongodb::client::ConnectionString;

fuzz_target!(|text: &str| {
    let _ = text
        .parse::<ConnectionString>()
        .map_err(|error| error.to_string());
    let _ = format!("mongodb://{text}").parse::<ConnectionString>();
    // A password of letters and digits that occurs nowhere else.
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if plain && text.len() >= 24 {
        let given = format!("mongodb://u:{text}@h/?appName=x");
        let read = given.parse::<ConnectionString>().expect("well formed");
        assert!(!format!("{read:?}").contains(text));
    }
});
