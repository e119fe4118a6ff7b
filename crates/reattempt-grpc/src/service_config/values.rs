//! Sets of codes. Other values of a service config use the shared readers.

use reattempt::config::{Decimal, Json, Place};

use crate::{Code, CodeSet};

pub(super) use reattempt::config::{
    array, boolean, duration, factor, integer, string, thousandths, wrong,
};

/// An array of codes, by number or name in any case. OK is not a failure, so it is rejected.
pub(super) fn codes(place: &mut Place<'_>, json: Json<'_>) -> Option<CodeSet> {
    const MUST: &str =
        "a gRPC status code other than OK: a number from 1 to 16 or a name such as \"UNAVAILABLE\"";
    let Some(items) = json.items() else {
        return wrong(place, "an array of status codes", json);
    };
    let mut set = CodeSet::EMPTY;
    let mut whole = true;
    for (at, item) in items.into_iter().enumerate() {
        let number = item.as_number().map(Decimal::of);
        let number = number.filter(|number| number.is_whole() && !number.is_negative());
        let code = match (number, item.as_str()) {
            (Some(number), _) => i64::try_from(number.scaled(0).min(u64::from(u16::MAX)))
                .ok()
                .and_then(Code::from_number),
            (None, Some(name)) => name.parse().ok(),
            (None, None) => None,
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
