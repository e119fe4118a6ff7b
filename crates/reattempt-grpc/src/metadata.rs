//! Reading and merging of metadata.

use http::{HeaderMap, HeaderName, HeaderValue};

/// As many headers are looked through for a name: to hash the name costs more than that.
const FEW: usize = 8;

/// The first value of this name.
#[cfg(feature = "tokio")]
#[inline]
pub(crate) fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    if headers.len() > FEW {
        return headers.get(name);
    }
    let mut pairs = headers.iter();
    pairs
        .find(|(other, _)| *other == name)
        .map(|(_, value)| value)
}

/// The first value of each of two names, in one pass.
#[inline]
pub(crate) fn first_of_two<'a>(
    headers: &'a HeaderMap,
    one: &HeaderName,
    two: &HeaderName,
) -> (Option<&'a HeaderValue>, Option<&'a HeaderValue>) {
    if headers.len() > FEW {
        return (headers.get(one), headers.get(two));
    }
    let mut found = (None, None);
    for (name, value) in headers {
        if name == one {
            found.0 = found.0.or(Some(value));
        } else if name == two {
            found.1 = found.1.or(Some(value));
        }
    }
    found
}

/// Removes all values of this name, which hardly any headers have.
#[cfg(feature = "tokio")]
#[inline]
pub(crate) fn remove(headers: &mut HeaderMap, name: &HeaderName) {
    if first(headers, name).is_some() {
        headers.remove(name);
    }
}

/// Appends these values after existing values of the same names.
#[cfg(feature = "tokio")]
pub(crate) fn append(headers: &mut HeaderMap, more: HeaderMap) {
    let mut last = None;
    for (name, value) in more {
        // `HeaderMap`'s iterator yields the name only with its first value.
        last = name.or(last);
        if let Some(name) = &last {
            headers.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: HeaderName = HeaderName::from_static("one");
    const TWO: HeaderName = HeaderName::from_static("two");

    #[test]
    fn the_first_of_two_names_is_found_among_few_and_many() {
        for others in [0, 1, 7, 8, 12] {
            for (ones, twos) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2)] {
                let mut headers = HeaderMap::new();
                for at in 0..others {
                    let name: HeaderName = format!("other-{at}").parse().unwrap();
                    headers.insert(name, HeaderValue::from(at));
                }
                for value in (0..twos).map(|at| at + 10) {
                    headers.append(TWO, HeaderValue::from(value));
                }
                for value in 0..ones {
                    headers.append(ONE, HeaderValue::from(value));
                }
                let one = (ones > 0).then(|| HeaderValue::from(0));
                let two = (twos > 0).then(|| HeaderValue::from(10));
                let found = first_of_two(&headers, &ONE, &TWO);
                assert_eq!(found, (one.as_ref(), two.as_ref()), "{headers:?}");
            }
        }
    }
}
