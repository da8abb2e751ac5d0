//! Requests that take long: what they owe, and how many of them are remembered.

use tollgate_core::algorithm::{Algorithm, Concurrency, FixedWindow, Quota};
use tollgate_core::policy::KeyExpr;

use super::*;
use crate::entry::Head;
use crate::line::{Format, Parsed};
use crate::wanted::Wanted;

/// One route with a limit of this many requests at the same time.
fn concurrency(limit: u64) -> Setup {
    let algorithm = Concurrency::new(limit).expect("a limit");
    let algorithm = Algorithm::Concurrency(algorithm);
    let policy = Arc::new(Policy::new("jobs", KeyExpr::Ip, algorithm));
    let route = Route::for_all(vec![Arc::clone(&policy)]);
    let client = ClientSettings::default();
    let name = String::new();
    let routes = vec![route];
    let policies = vec![policy];
    Setup { name, routes, policies, client, overflowing: Vec::new(), max_keys: 100 }
}

/// A request that takes a minute and arrives at this second.
fn judge(trial: &mut Trial, second: u64) -> Fate {
    let text = b"192.0.2.1 - - [21/Nov/2026:07:28:46 +0000] \"GET / HTTP/1.1\" 200 1 60.0";
    let format = Format::named("combined").expect("a format");
    let Some(Parsed::Request(line)) = format.parse(text) else { panic!("a request") };
    let entry = Entry::of(&line, &Wanted::new([], []), None).expect("a request");
    let mut head = Head::new();
    let view = head.view(&entry).expect("a view");
    trial.judge(&view, &entry, &Facts::default(), Timestamp::from_micros(second * 1_000_000))
}

#[test]
fn a_request_is_in_flight_until_its_end() {
    let mut trial = Trial::new(&concurrency(1), None);
    let fates: Vec<Fate> = [10, 69, 70, 71].map(|second| judge(&mut trial, second)).to_vec();
    assert_eq!(fates, [Fate::Admitted, Fate::Refused, Fate::Admitted, Fate::Refused]);
    assert_eq!((trial.counts.totals.judged, trial.counts.totals.refused), (4, 2));
}

#[test]
fn no_more_requests_are_in_flight_than_the_bound() {
    let mut trial = Trial::new(&concurrency(100), None);
    trial.max_open = 3;
    for second in 0..20 {
        assert_eq!(judge(&mut trial, second), Fate::Admitted);
        assert!(trial.open.len() <= 3, "{}", trial.open.len());
    }
}

/// A client with two a minute of its own, instead of one request at the same time.
#[test]
fn a_limit_of_a_client_alone_is_that_of_the_log() {
    let mut setup = concurrency(1);
    let quota = Quota::new(1, Span::from_secs(60)).expect("a quota");
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
    let policy = Arc::new(Policy::new("jobs", KeyExpr::Ip, algorithm));
    (setup.routes[0].policies, setup.policies) = (vec![Arc::clone(&policy)], vec![policy]);
    let mut trial = Trial::new(&setup, None);
    let format = Format::named("tollgate").expect("a format");
    let wanted = Wanted::new([], [Arc::from("jobs")]);
    let mut judge = |second: u64, own: &str| {
        let text = format!(
            "{{\"time\":\"2026-11-21T07:28:46Z\",\"client\":\"-\",\"method\":\"GET\",\"path\":\"/\",\
             \"outcome\":\"admitted\",\"time_us\":{second}000000,\
             \"keys\":[{{\"policy\":\"gone\",\"id\":\"000000000007\",\"cost\":9}},\
             {{\"policy\":\"jobs\",\"id\":\"000000000007\",\"cost\":1{own}}}]}}"
        );
        let Some(Parsed::Request(line)) = format.parse(text.as_bytes()) else { panic!("{text}") };
        assert_eq!(line.time.us, second * 1_000_000);
        let entry = Entry::of(&line, &wanted, None).expect("a request");
        let known = entry.known.as_deref().expect("keys");
        trial.judge_known(&entry, known, Timestamp::from_micros(line.time.us))
    };
    let own = ",\"limit\":2,\"window_us\":60000000";
    let fates = [judge(0, own), judge(1, own), judge(2, own), judge(61, ""), judge(62, "")];
    let yes = Fate::Admitted;
    let no = Fate::Refused;
    assert_eq!(fates, [yes, yes, no, yes, no]);
    assert_eq!((trial.counts.totals.repeated, trial.counts.totals.different), (3, 2));
}
