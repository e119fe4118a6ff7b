//! Documents inside of settings in another format.

use std::fmt;

use serde::Deserializer;
use serde::de::{Deserialize, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::Faults;

/// Reads a document that stands inside of a program's own settings, in any format that serde knows,
/// with the same `parse` as its JSON text. For `serde::Deserialize` of policies.
///
/// # Errors
/// What the format itself does not accept, and a member that is there twice; else all faults of the
/// document, in the message of one error. Their paths begin at the document.
///
/// A number that JSON does not have, such as `nan`, is `null`.
pub fn deserialize<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, Faults>,
) -> Result<T, D::Error> {
    let Once(value) = Once::deserialize(deserializer)?;
    parse(&value.to_string()).map_err(D::Error::custom)
}

/// A value in which no member is there twice: of two, the last one would be used and the first one
/// lost.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Document).map(Self)
    }
}

/// How serde_json hands over a number if the program has its feature `arbitrary_precision`.
const NUMBER: &str = "$serde_json::private::Number";

struct Document;

impl<'de> Visitor<'de> for Document {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        serde_json::from_str(&value.to_string()).map_err(E::custom)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        serde_json::from_str(&value.to_string()).map_err(E::custom)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Once(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if name == NUMBER {
                let number = entries.next_value::<String>()?;
                return serde_json::from_str(&number).map_err(A::Error::custom);
            }
            let Once(value) = entries.next_value()?;
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("{name:?} is there twice")));
            }
            members.insert(name, value);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, MapDeserializer};

    use super::*;

    #[test]
    fn a_number_of_any_precision_is_a_number() {
        let handed_over = [(NUMBER, "3")].into_iter();
        let number = MapDeserializer::<_, Error>::new(handed_over);
        let Once(value) = Once::deserialize(number).unwrap();
        assert_eq!(value, Value::from(3));
        let large: serde::de::value::I128Deserializer<Error> = 7_i128.into_deserializer();
        let Once(value) = Once::deserialize(large).unwrap();
        assert_eq!(value, Value::from(7));
    }
}
