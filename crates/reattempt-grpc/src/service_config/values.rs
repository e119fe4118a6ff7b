//! Sets of codes. Other values of a service config use the shared readers.

use reattempt_http::json::{Decimal, Json, Place};

use crate::{Code, CodeSet};

pub(super) use reattempt_http::json::{
    array, boolean, duration, factor, integer, string, thousandths, wrong,
};

/// An array of codes, by number or name in any case. OK is not a failure, so it is rejected.
pub(super) fn codes(place: &mut Place<'_>, json: &Json) -> Option<CodeSet> {
    const MUST: &str =
        "a gRPC status code other than OK: a number from 1 to 16 or a name such as \"UNAVAILABLE\"";
    let Json::Array(items) = json else {
        return wrong(place, "an array of status codes", json);
    };
    let mut set = CodeSet::EMPTY;
    let mut whole = true;
    for (at, item) in items.iter().enumerate() {
        let code = match item {
            Json::String(name) => name.parse().ok(),
            Json::Number(text) => {
                let decimal = Decimal::of(text);
                let number = decimal.scaled(0).min(u64::from(u16::MAX));
                let fits = decimal.is_whole() && !decimal.is_negative();
                i64::try_from(number)
                    .ok()
                    .filter(|_| fits)
                    .and_then(Code::from_number)
            }
            _ => None,
        };
        match code {
            Some(code) if code != Code::Ok => set = set.with(code),
            _ => {
                whole = false;
                wrong::<()>(&mut place.index(at), MUST, item);
            }
        }
    }
    whole.then_some(set)
}
