//! Arbitrary bytes, in arbitrary pieces.

use proptest::prelude::*;

use super::*;

const SERVICES: [HttpService; 6] = [
    HttpService::query(),
    HttpService::query().with_current_server_codes(),
    HttpService::analytics(),
    HttpService::search().with_current_server_codes(),
    HttpService::views(),
    HttpService::management(),
];

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// The verdict on this body in pieces of these sizes.
async fn in_pieces(service: HttpService, status: u16, body: &[u8], sizes: &[usize]) -> Verdict {
    let (mut rest, mut pieces) = (body, Vec::new());
    for size in sizes.iter().cycle() {
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        pieces.push(Piece::Data(Bytes::copy_from_slice(piece)));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let (answer, _) = through(ServiceErrorLayer::new(service), status, Pieces::of(pieces)).await;
    let verdict = verdict(service, &answer);
    let came = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(came, body, "the caller's copy");
    verdict
}

fn check(service: usize, status: u16, body: &[u8], sizes: &[usize]) {
    block_on(async {
        let service = SERVICES[service];
        let whole = in_pieces(service, status, body, &[body.len().max(1)]).await;
        let cut = in_pieces(service, status, body, sizes).await;
        assert_eq!(whole, cut);
        let error = service.read_error(StatusCode::from_u16(status).unwrap(), body);
        if let (Some(code), Kind::Query | Kind::Analytics) =
            (error.and_then(|e| e.code()), service.kind)
        {
            assert_eq!(whole.failure().unwrap().code, Some(code));
        }
    });
}

/// What a JSON parser finds if the response is JSON.
fn by_parser(body: &str) -> Option<Option<i32>> {
    let value: serde_json::Value = serde_json::from_str(body).ok()?;
    let first = value.get("errors")?.as_array()?.first()?;
    let code = first.get("code").filter(|_| first.is_object());
    Some(
        code.and_then(serde_json::Value::as_i64)
            .and_then(|code| i32::try_from(code).ok()),
    )
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..6000_i32).prop_map(Value::from),
        "[a-z\\\\\"\n\u{e9}{}\\[\\]:,]{0,8}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        4 => prop::sample::select(vec!["errors", "results", "code", "msg", "retry"]).prop_map(str::to_owned),
        1 => "[a-z\"\\\\]{0,6}".prop_map(|key| key),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_bytes_panic_and_no_cut_makes_a_difference(
        service in 0..SERVICES.len(), status in 200_u16..600,
        body in prop::collection::vec(any::<u8>(), 0..300),
        sizes in prop::collection::vec(1_usize..40, 1..6),
    ) {
        check(service, status, &body, &sizes);
    }

    #[test]
    fn nor_does_one_in_what_is_almost_an_error(
        service in 0..SERVICES.len(), status in 200_u16..600,
        body in "\\{?(\"(errors|results|code|msg|retry|reason|error|\\\\u0065)\" ?:? ?|[\\[\\]{},]|4040|5000|true|\"missing\"|\"badarg\"){0,30}",
        sizes in prop::collection::vec(1_usize..10, 1..6),
    ) {
        check(service, status, body.as_bytes(), &sizes);
    }

    #[test]
    fn of_json_the_same_is_found_as_by_a_parser(value in json(), pretty in any::<bool>()) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        let error = HttpService::query().read_error(StatusCode::OK, text.as_bytes());
        prop_assert_eq!(error.map(|error| error.code()), by_parser(&text), "{}", text);
    }
}
