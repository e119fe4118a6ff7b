//! What a proxy's path has before the name of a method.

/// `shop.Cart/Add` of `api/shop.Cart/Add`; `None` if nothing is before its last two segments.
#[inline]
pub(crate) fn without_prefix(path: &str) -> Option<&str> {
    let (service, _) = path.rsplit_once('/')?;
    let (prefix, _) = service.rsplit_once('/')?;
    Some(&path[prefix.len() + 1..])
}
