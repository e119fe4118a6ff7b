//! The extensions of a request, kept for copies of the request.

use http::Extensions;

/// A copy of a map takes two allocations, and one more for each extension. Most requests have none,
/// and those of a tonic client one, which needs no map until an attempt fails.
pub(super) enum KeptExtensions {
    Map(Extensions),
    #[cfg(feature = "tonic")]
    Method(tonic::GrpcMethod<'static>),
}

impl KeptExtensions {
    #[inline]
    pub(super) fn of(map: &Extensions) -> Self {
        #[cfg(feature = "tonic")]
        if map.len() == 1 {
            if let Some(method) = map.get::<tonic::GrpcMethod<'static>>() {
                return Self::Method(method.clone());
            }
        }
        Self::Map(map.clone())
    }

    pub(super) fn to_map(&self) -> Extensions {
        match self {
            Self::Map(map) => map.clone(),
            #[cfg(feature = "tonic")]
            Self::Method(method) => {
                let mut map = Extensions::new();
                map.insert(method.clone());
                map
            }
        }
    }
}
