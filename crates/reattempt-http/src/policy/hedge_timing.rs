//! When a route's hedges are sent: `delay`, or `extraLoadPercent`.

use std::sync::Arc;
use std::time::Duration;

use reattempt::HedgeDelay;
use reattempt::config::{self, Json, Members, Place};
use reattempt::policy::{ExtraLoad, Fixed, Percentile};

use super::members;

/// A checked definition. Two that are equal learn the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HedgeTiming {
    Fixed(Duration),
    /// In tenths of a percent.
    ExtraLoad(u32),
    /// The percentile in tenths.
    Percentile {
        tenths: u32,
        min: Option<Duration>,
        max: Option<Duration>,
    },
}

impl HedgeTiming {
    /// Of the members of a `hedge`.
    pub(super) fn read(place: &mut Place<'_>, members: &Members<'_>) -> Option<Self> {
        if members.get("extraLoadPercent").is_some() {
            if members.get("delay").is_some() {
                place.wrong("has both delay and extraLoadPercent: only one may be set");
            }
            return members.optional(place, "extraLoadPercent", |place, json| {
                let must = "a number from 0.1 to 50 with at most one decimal place";
                config::tenths(place, json, must, 50).map(Self::ExtraLoad)
            });
        }
        members.required(place, "delay", "a duration", |place, json| {
            if json.is_object() {
                Self::percentile(place, json)
            } else {
                config::duration(place, json, false).map(Self::Fixed)
            }
        })
    }

    fn percentile(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let members = Members::of(place, json, members::HEDGE_DELAY)?;
        let tenths = members.required(place, "percentile", "a number", |place, json| {
            let must = "a number from 1 to 99.9 with at most one decimal place";
            match config::tenths(place, json, must, 100)? {
                tenths @ 10..=999 => Some(tenths),
                _ => config::wrong(place, must, json),
            }
        });
        let mut limit = |name, positive| {
            members.optional(place, name, |place, json| {
                config::duration(place, json, positive)
            })
        };
        let (min, max) = (limit("min", false), limit("max", true));
        if let (Some(min), Some(max)) = (min, max) {
            if max < min {
                place.field("max").wrong("is below min");
            }
        }
        Some(Self::Percentile {
            tenths: tenths?,
            min,
            max,
        })
    }

    /// Whether the delay learns.
    pub(super) const fn learns(self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    /// A new delay, which has learned nothing.
    pub(super) fn make(self) -> Option<Arc<dyn HedgeDelay>> {
        // The parser has checked all numbers.
        Some(match self {
            Self::Fixed(delay) => Arc::new(Fixed(delay)),
            Self::ExtraLoad(tenths) => Arc::new(ExtraLoad::percent(f64::from(tenths) / 10.0).ok()?),
            Self::Percentile { tenths, min, max } => {
                let delay = Percentile::of(f64::from(tenths) / 10.0).ok()?;
                let delay = delay.min(min.unwrap_or_default());
                Arc::new(delay.max(max.unwrap_or(Duration::MAX)))
            }
        })
    }
}
