use std::convert::Infallible;
use std::sync::Arc;

use crate::{Call, HasCallContext, RoutePolicy, Routes};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::*;

async fn policy_of(
    service: &mut impl Service<Call<()>, Response = Option<String>>,
) -> Option<String> {
    service.ready().await.ok()?.call(Call::new(())).await.ok()?
}

async fn name(call: Call<()>) -> Result<Option<String>, Infallible> {
    Ok(call
        .context()
        .and_then(|c| c.policy())
        .map(|policy| policy.name().to_owned()))
}

#[tokio::test]
async fn a_swap_applies_to_the_next_call_and_keeps_old_snapshots() {
    let routes = Routes::new(Arc::new(RoutePolicy::new("old")));
    let mut service = ServiceBuilder::new()
        .layer(RouteLayer::new(routes.clone()))
        .service_fn(name);
    assert_eq!(policy_of(&mut service).await.as_deref(), Some("old"));
    let snapshot = routes.load();
    routes.swap(Arc::new(RoutePolicy::new("new")));
    assert_eq!(policy_of(&mut service).await.as_deref(), Some("new"));
    assert_eq!(snapshot.name(), "old");
}

#[tokio::test]
async fn the_callers_own_policy_stays() {
    let routes = RouteLayer::new(Arc::new(RoutePolicy::new("layer")));
    let service = ServiceBuilder::new().layer(routes).service_fn(name);
    let mut call = Call::new(());
    call.context_mut()
        .attach_policy(Arc::new(RoutePolicy::new("caller")));
    assert_eq!(service.oneshot(call).await, Ok(Some("caller".to_owned())));
}
