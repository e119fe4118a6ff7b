use proptest::prelude::*;
use reattempt::{CallContext, FoundPushback, ReadPushback};

use super::*;
use crate::{HttpClassifier, HttpRoute, StatusSet};

/// Sun, 06 Nov 1994 08:49:37 GMT, RFC 9110's example.
fn then() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn read(reader: HttpPushback, status: u16, headers: &[(&str, &str)]) -> Option<ServerPushback> {
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let response = response.body(()).unwrap();
    let (reader, context) = (reader.wall_clock(then), CallContext::default());
    ReadPushback::<_, ()>::read(&reader, Ok(&response), &context).valid()
}

fn after(value: &str) -> Option<Duration> {
    match read(HttpPushback::new(), 503, &[("retry-after", value)]) {
        Some(ServerPushback::After(delay)) => Some(delay),
        Some(other) => panic!("{other}"),
        None => None,
    }
}

#[test]
fn seconds_and_all_three_date_forms_are_read() {
    let s = Duration::from_secs;
    assert_eq!(after("120"), Some(s(120)));
    assert_eq!(after("0"), Some(s(0)));
    assert_eq!(after("Sun, 06 Nov 1994 08:49:47 GMT"), Some(s(10)));
    assert_eq!(after("Sunday, 06-Nov-94 08:49:47 GMT"), Some(s(10)));
    assert_eq!(after("Sun Nov  6 08:49:47 1994"), Some(s(10)));
}

#[test]
fn a_past_date_means_now_and_too_large_a_number_saturates() {
    assert_eq!(after("Sun, 06 Nov 1994 08:49:36 GMT"), Some(Duration::ZERO));
    for before_1970 in [
        "Fri, 01 Jan 1960 00:00:00 GMT",
        "Mon, 01 Jan 1601 00:00:00 GMT",
        "Sat, 01 Jan 0000 00:00:00 GMT",
        "Wed Dec 31 23:59:59 1969",
    ] {
        assert_eq!(after(before_1970), Some(Duration::ZERO), "{before_1970}");
    }
    let leap_second = after("Fri, 30 Jun 1995 23:59:60 GMT");
    assert_eq!(leap_second, after("Sat, 01 Jul 1995 00:00:00 GMT"));
    assert!(leap_second.is_some());
    let huge = after("99999999999999999999999999");
    assert_eq!(huge, Some(Duration::from_secs(u64::MAX)));
}

const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// What `Retry-After` says at this instant.
fn at(now: fn() -> SystemTime, value: &str) -> Option<Duration> {
    let response = http::Response::builder().status(429);
    let response = response.header("retry-after", value).body(()).unwrap();
    let reader = HttpPushback::new().wall_clock(now);
    let found = ReadPushback::<_, ()>::read(&reader, Ok(&response), &CallContext::default());
    found.valid()?.delay()
}

#[test]
fn two_digits_are_a_year_at_most_fifty_years_ahead() {
    // On January 1st of these years.
    let in_2018 = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_514_764_800);
    let in_2027 = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_798_761_600);
    let in_2070 = || SystemTime::UNIX_EPOCH + Duration::from_secs(3_155_760_000);
    let past = "Wednesday, 01-Jan-69 00:00:00 GMT";
    assert_eq!(at(in_2018, past), Some(Duration::ZERO), "of 1969");
    let ahead = "Wednesday, 01-Jan-70 00:00:10 GMT";
    let ten = Duration::from_secs(10);
    assert_eq!(at(in_2070, ahead), Some(ten));
    let until_2070 = Duration::from_secs(3_155_760_000 - 1_798_761_600);
    assert_eq!(at(in_2027, ahead), Some(until_2070 + ten));
    // 2060 is 66 years ahead, and in 1960 it was a Sunday.
    assert_eq!(after("Saturday, 06-Nov-60 08:49:37 GMT"), None);
    let never = || SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX as u64);
    assert_eq!(at(never, past), Some(Duration::ZERO), "no panic");
}

#[test]
fn a_clock_before_1970_shortens_no_delay() {
    let before = || SystemTime::UNIX_EPOCH - Duration::from_secs(100);
    let is = |value, seconds| assert_eq!(at(before, value), Some(Duration::from_secs(seconds)));
    is("Thu, 01 Jan 1970 00:00:10 GMT", 110);
    is("Wed, 31 Dec 1969 23:58:30 GMT", 10);
}

#[test]
fn each_form_of_a_date_has_its_own_weekday() {
    for mixed in [
        "Sunday, 06 Nov 1994 08:49:47 GMT",
        "Sun, 06-Nov-94 08:49:47 GMT",
        "Sunday Nov  6 08:49:47 1994",
    ] {
        assert_eq!(after(mixed), None, "{mixed}");
    }
}

proptest! {
    /// Of 400 years, in all forms, and with every weekday, of which one is right.
    #[test]
    fn a_date_is_read_as_another_parser_reads_it(
        year in 1970_u32..2370, month in 0_usize..12, day in 0..33, hour in 0..26, minute in 0..62,
        second in 0..60,
    ) {
        let time = format!("{hour:02}:{minute:02}:{second:02}");
        let month = MONTHS[month];
        for weekday in WEEKDAYS {
            let short = &weekday[..3];
            for text in [
                format!("{short}, {day:02} {month} {year} {time} GMT"),
                format!("{weekday}, {day:02}-{month}-{:02} {time} GMT", year % 100),
                format!("{short} {month} {day:2} {time} {year}"),
            ] {
                // The other parser has a fixed century for two digits.
                if text.contains('-') && (45..70).contains(&(year % 100)) {
                    continue;
                }
                let expected = httpdate::parse_http_date(&text).ok();
                let expected = expected.map(|at| at.duration_since(then()).unwrap_or_default());
                prop_assert_eq!(after(&text), expected, "{}", text);
            }
        }
    }
}

#[test]
fn junk_counts_as_absent() {
    for junk in [
        "",
        "soon",
        "-5",
        "1.5",
        "+3",
        "1e3",
        "10 s",
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Thu, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Thu, 99 Jan 1960 00:00:00 GMT",
        "Thu, 01 Jan 19é0 00:00:00 GMT",
        "Sat, 01 Jan 10000 00:00:00 GMT",
        " GMT",
        "12345678901 1960 GMT",
        "ééééééééééééééé GMT",
    ] {
        assert_eq!(after(junk), None, "{junk:?}");
    }
}

#[test]
fn milliseconds_go_first_unless_they_are_junk_or_switched_off() {
    let ms = |value| [("retry-after-ms", value), ("retry-after", "9")];
    let is = |word, delay| assert_eq!(word, Some(ServerPushback::After(delay)));
    is(
        read(HttpPushback::new(), 429, &ms("250")),
        Duration::from_millis(250),
    );
    is(
        read(HttpPushback::new(), 429, &ms("x")),
        Duration::from_secs(9),
    );
    let off = HttpPushback::new().milliseconds(false);
    is(read(off, 429, &ms("250")), Duration::from_secs(9));
}

#[test]
fn beyond_the_cap_it_stops_or_waits_the_cap() {
    let cap = Duration::from_secs(5);
    let long = [("retry-after", "6")];
    let stop = HttpPushback::new().cap(cap, BeyondCap::Stop);
    let wait = HttpPushback::new().cap(cap, BeyondCap::Wait);
    let six = ServerPushback::TooLong { millis: 6000 };
    assert_eq!(read(stop.clone(), 503, &long), Some(six));
    assert_eq!(read(wait, 503, &long), Some(ServerPushback::After(cap)));
    let just = [("retry-after", "5")];
    assert_eq!(read(stop, 503, &just), Some(ServerPushback::After(cap)));
}

#[test]
fn the_routes_settings_beat_the_layers_but_not_its_clock() {
    use reattempt::RoutePolicy;
    use std::sync::Arc;

    let response = http::Response::builder()
        .status(503)
        .header("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")
        .body(())
        .unwrap();
    let layer = HttpPushback::new().wall_clock(then);
    let read = |data: HttpRoute| {
        let mut context = CallContext::default();
        context.attach_policy(Arc::new(RoutePolicy::new("r").with_data(data)));
        ReadPushback::<_, ()>::read(&layer, Ok(&response), &context).valid()
    };
    let after = |seconds| Some(ServerPushback::After(Duration::from_secs(seconds)));
    assert_eq!(read(HttpRoute::new()), after(10));
    let capped = HttpPushback::new().cap(Duration::from_secs(3), BeyondCap::Wait);
    assert_eq!(read(HttpRoute::new().with_pushback(capped)), after(3));
    let deaf = HttpPushback::new().honour(false);
    assert_eq!(read(HttpRoute::new().with_pushback(deaf)), None);
}

#[test]
fn a_good_answer_pushes_nothing_back() {
    let asked = |status| read(HttpPushback::new(), status, &[("retry-after", "5")]);
    assert_eq!([202, 299].map(asked), [None, None]);
    let five = Some(ServerPushback::After(Duration::from_secs(5)));
    assert_eq!([300, 404].map(asked), [five, five]);
}

#[test]
fn a_good_status_that_the_route_retries_may_push_back() {
    use reattempt::RoutePolicy;
    use std::sync::Arc;

    let asked = |data: HttpRoute, status: u16| {
        let mut context = CallContext::default();
        context.attach_policy(Arc::new(RoutePolicy::new("r").with_data(data)));
        let response = http::Response::builder().status(status);
        let response = response.header("retry-after", "5").body(()).unwrap();
        ReadPushback::<_, ()>::read(&HttpPushback::new(), Ok(&response), &context).valid()
    };
    let pending = HttpClassifier::new().retryable(StatusSet::of(&[202, 503]));
    let route = HttpRoute::new().with_classifier(pending);
    let five = Some(ServerPushback::After(Duration::from_secs(5)));
    assert_eq!(asked(route.clone(), 202), five);
    assert_eq!(asked(route.clone(), 200), None);
    assert_eq!(asked(route.clone(), 429), five, "listed or not");
    let limited = http::Response::builder().status(202);
    let limited = limited
        .header("x-ratelimit-remaining", "0")
        .header("x-ratelimit-reset", "9");
    let limited = limited.body(()).unwrap();
    assert_eq!(HttpPushback::new().pushback(&limited).valid(), None);
    let deaf = route.with_pushback(HttpPushback::new().honour(false));
    assert_eq!(asked(deaf, 202), None);
    let without = HttpRoute::new().with_classifier(HttpClassifier::new());
    assert_eq!(asked(without, 202), None);
}

#[test]
fn the_delay_of_headers_alone_is_uncapped_and_without_jitter() {
    let reader = HttpPushback::new()
        .cap(Duration::from_secs(3), BeyondCap::Stop)
        .spread(Duration::from_secs(2))
        .randomness(Randomness::Fixed(0.5));
    let mut headers = HeaderMap::new();
    assert_eq!(reader.delay(&headers), None);
    headers.insert("retry-after", "60".parse().unwrap());
    assert_eq!(reader.delay(&headers), Some(Duration::from_secs(60)));
    headers.insert("retry-after-ms", "700".parse().unwrap());
    assert_eq!(reader.delay(&headers), Some(Duration::from_millis(700)));
    headers.insert("x-amz-retry-after", "99999".parse().unwrap());
    assert_eq!(reader.delay(&headers), Some(Duration::from_millis(700)));
    let also = reader.also_amz();
    assert_eq!(also.delay(&headers), Some(Duration::from_secs(25)));
    assert_eq!(HttpPushback::amz().delay(&headers), also.delay(&headers));
}

fn limited(status: u16, reset: &str, more: &[(&str, &str)]) -> Option<ServerPushback> {
    let headers = [&[("x-ratelimit-reset", reset)], more].concat();
    let by_old_name = read(HttpPushback::new(), status, &headers);
    let headers = [&[("ratelimit-reset", reset)], more].concat();
    assert_eq!(read(HttpPushback::new(), status, &headers), by_old_name);
    by_old_name
}

#[test]
fn a_rate_limits_reset_is_a_delay_a_moment_or_a_date() {
    for (reset, seconds) in [
        ("30", Some(30)),
        ("0", Some(0)),
        ("999999999", Some(999_999_999)),
        // Half a minute from "now", in 2001.
        ("1000000030", Some(30)),
        ("1000000030000", Some(30)),
        ("999999999999", Some(998_999_999_999)),
        ("Sun, 09 Sep 2001 01:47:10 GMT", Some(30)),
        // Not ahead: one of the two clocks is wrong.
        ("1000000000", None),
        ("1000000000000", None),
        ("Sun, 09 Sep 2001 01:46:39 GMT", None),
    ] {
        let headers = [("ratelimit-reset", reset)];
        let now = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let response = http::Response::builder().status(429);
        let response = response
            .header(headers[0].0, headers[0].1)
            .body(())
            .unwrap();
        let reader = HttpPushback::new().wall_clock(now);
        let word =
            ReadPushback::<_, ()>::read(&reader, Ok(&response), &CallContext::default()).valid();
        let asked = seconds.map(|seconds| ServerPushback::After(Duration::from_secs(seconds)));
        assert_eq!(word, asked, "{reset}");
    }
    let endless = limited(429, "99999999999999999999999999", &[]);
    let saturated = ServerPushback::After(Duration::from_secs(u64::MAX));
    assert_eq!(endless, Some(saturated));
    assert_eq!(limited(429, "soon", &[]), None);
}

/// Limits that a server sends with every response do not delay each of them.
#[test]
fn a_rate_limits_reset_counts_where_the_limit_was_what_failed() {
    let counts = |status, more: &[_]| limited(status, "30", more).is_some();
    assert!(counts(429, &[("x-ratelimit-remaining", "7")]));
    assert!(counts(503, &[]));
    assert!(!counts(503, &[("x-ratelimit-remaining", "7")]));
    assert!(counts(403, &[("ratelimit-remaining", "0")]));
    assert!(!counts(403, &[("ratelimit-remaining", "x")]));
    assert!(!counts(502, &[]) && !counts(200, &[("ratelimit-remaining", "0")]));
}

#[test]
fn limits_that_are_not_exhausted_can_be_ignored() {
    let reader = || HttpPushback::new().only_exhausted_limits();
    let asked = |status, remaining| {
        let headers = [("x-ratelimit-reset", "30"), remaining];
        read(reader(), status, &headers)
    };
    let in_30_s = Some(ServerPushback::After(Duration::from_secs(30)));
    assert_eq!(asked(429, ("x-ratelimit-remaining", "0")), in_30_s);
    assert_eq!(asked(403, ("ratelimit-remaining", "0")), in_30_s);
    assert_eq!(asked(429, ("x-ratelimit-remaining", "7")), None);
    assert_eq!(asked(429, ("x-other", "0")), None);
    let both = [("retry-after", "2"), ("x-ratelimit-reset", "30")];
    let in_2_s = Some(ServerPushback::After(Duration::from_secs(2)));
    assert_eq!(read(reader(), 429, &both), in_2_s);
}

#[test]
fn retry_after_beats_a_rate_limits_reset() {
    let both = [("retry-after", "2"), ("ratelimit-reset", "30")];
    let is = |word, seconds| {
        let asked = ServerPushback::After(Duration::from_secs(seconds));
        assert_eq!(word, Some(asked));
    };
    is(read(HttpPushback::new(), 429, &both), 2);
    let junk = [("retry-after", "x"), ("ratelimit-reset", "30")];
    is(read(HttpPushback::new(), 429, &junk), 30);
    let off = HttpPushback::new().rate_limits(false);
    assert_eq!(read(off, 429, &junk), None);
}

#[test]
fn the_order_of_the_headers_does_not_matter() {
    let all = [
        ("x-amz-retry-after", "100"),
        ("retry-after-ms", "200"),
        ("retry-after-ms", "300"),
        ("retry-after", "4"),
        ("retry-after", "x"),
        ("ratelimit-reset", "50"),
        ("x-ratelimit-reset", "60"),
    ];
    let asked = [100, 300, 300, 4000, 50_000, 50_000, 60_000];
    for (from, millis) in asked.into_iter().enumerate() {
        for turned in 0..all.len() - from {
            let mut headers = all;
            let headers = &mut headers[from..];
            headers.rotate_left(turned);
            let asked = ServerPushback::After(Duration::from_millis(millis));
            let reader = HttpPushback::new().also_amz();
            assert_eq!(read(reader.clone(), 429, headers), Some(asked));
            headers.reverse();
            assert_eq!(read(reader, 429, headers), Some(asked));
        }
    }
}

#[test]
fn an_unreadable_value_is_distinct_from_an_absent_one() {
    let unreadable = |status, headers: &[(&str, &str)], reader: HttpPushback| {
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(()).unwrap();
        let context = CallContext::default();
        let found = ReadPushback::<_, ()>::read(&reader, Ok(&response), &context);
        found == FoundPushback::Unreadable
    };
    let new = HttpPushback::new;
    for name in ["retry-after", "retry-after-ms", "ratelimit-reset"] {
        assert!(unreadable(429, &[(name, "soon")], new()), "{name}");
        assert!(!unreadable(429, &[(name, "soon")], new().honour(false)));
        assert!(!unreadable(200, &[(name, "soon")], new()));
        assert!(!unreadable(429, &[(name, "1")], new()));
    }
    assert!(!unreadable(429, &[], new()));
    let one_readable = [("retry-after-ms", "x"), ("retry-after", "1")];
    assert!(!unreadable(429, &one_readable, new()));
}

/// No client returns earlier than the server allows, and no tenth of the spread gets more than its
/// share.
#[test]
fn ten_thousand_clients_with_one_instant_are_spread() {
    let reader = HttpPushback::new()
        .spread(Duration::from_secs(1))
        .randomness(Randomness::seeded(7));
    let mut tenths = [0_u32; 10];
    for _ in 0..10_000 {
        let word = read(reader.clone(), 503, &[("retry-after", "5")]);
        let Some(ServerPushback::After(delay)) = word else {
            panic!("{word:?}")
        };
        let later = delay.checked_sub(Duration::from_secs(5)).unwrap();
        tenths[(later.as_millis() / 100) as usize] += 1;
    }
    assert!(tenths.iter().all(|n| (850..1150).contains(n)), "{tenths:?}");
}

#[test]
fn without_a_spread_no_number_is_drawn() {
    let never = Randomness::drawn(|| unreachable!("a number was drawn"));
    let reader = HttpPushback::amz().randomness(never);
    let asked = read(reader, 503, &[("x-amz-retry-after", "100")]);
    assert_eq!(
        asked,
        Some(ServerPushback::After(Duration::from_millis(100)))
    );
}

#[test]
fn the_largest_spread_is_no_panic() {
    for roll in [1.0, f64::NAN] {
        let reader = HttpPushback::new().spread(Duration::MAX);
        let reader = reader.randomness(Randomness::Fixed(roll));
        let asked = read(reader, 503, &[("retry-after", "5")]);
        assert_eq!(asked, Some(ServerPushback::After(Duration::MAX)));
    }
}

#[test]
fn the_spread_comes_on_top_of_the_cap_and_softens_no_stop() {
    let reader = |beyond| {
        HttpPushback::new()
            .cap(Duration::from_secs(3), beyond)
            .spread(Duration::from_secs(2))
            .randomness(Randomness::Fixed(0.5))
    };
    let long = [("retry-after", "60")];
    let four = ServerPushback::After(Duration::from_secs(4));
    assert_eq!(read(reader(BeyondCap::Wait), 503, &long), Some(four));
    let too_long = ServerPushback::TooLong { millis: 60_000 };
    assert_eq!(read(reader(BeyondCap::Stop), 503, &long), Some(too_long));
    let now = [("retry-after", "0")];
    let one = ServerPushback::After(Duration::from_secs(1));
    assert_eq!(read(reader(BeyondCap::Stop), 503, &now), Some(one));
}
