//! Orders of small logs, exactly.

use super::*;
use crate::line::{Format, Parsed};
use crate::wanted::Wanted;

const AT: u64 = 1_795_246_126 * SECOND_US;

/// Adds a request that ended `second` seconds after [`AT`] and took so many seconds. A
/// `second` with a fraction is noted with it.
fn push(timeline: &mut Timeline, path: &str, second: &str, took_s: u64) {
    let format = Format::named("caddy").expect("a format");
    let (whole, fraction) = second.split_once('.').unwrap_or((second, ""));
    let ts = AT / SECOND_US + whole.parse::<u64>().expect("a number");
    let ts = if fraction.is_empty() { ts.to_string() } else { format!("{ts}.{fraction}") };
    let text = format!(
        "{{\"ts\":{ts},\"duration\":{took_s},\"request\":{{\"remote_ip\":\"::1\",\"method\":\"GET\",\
         \"uri\":\"{path}\"}}}}"
    );
    let Some(Parsed::Request(line)) = format.parse(text.as_bytes()) else { panic!("{text}") };
    let entry = Entry::of(&line, &Wanted::new([], []), None).expect("a request");
    timeline.push(&line, entry);
}

/// All that is left of a lane: durations in seconds, and arrivals in milliseconds.
fn rest(timeline: &mut Timeline, lane: usize) -> Vec<(u64, u64)> {
    let next = || timeline.next_of_rest(lane);
    std::iter::from_fn(next)
        .map(|(at_us, entry)| (entry.duration_us.unwrap_or(0) / SECOND_US, (at_us - AT) / 1000))
        .collect()
}

#[test]
fn requests_come_in_the_order_of_their_arrivals() {
    let mut timeline = Timeline::new(&[Placement::Spread]);
    push(&mut timeline, "/a", "10.5", 1);
    push(&mut timeline, "/b", "11.5", 9);
    push(&mut timeline, "/c", "12.5", 4);
    assert!(timeline.next(0).is_none(), "nothing is due before 60 s");
    assert_eq!(rest(&mut timeline, 0), [(9, 2500), (4, 8500), (1, 9500)]);
    assert_eq!(timeline.late(), 0);
}

#[test]
fn requests_of_one_second_are_spread_in_one_lane_and_at_its_start_in_the_other() {
    let mut timeline = Timeline::new(&[Placement::Spread, Placement::AtStart]);
    for second in ["3", "3", "4", "3", "3"] {
        push(&mut timeline, "/", second, 0);
    }
    let times = |lane: Vec<(u64, u64)>| lane.into_iter().map(|(_, at)| at).collect::<Vec<_>>();
    assert_eq!(times(rest(&mut timeline, 0)), [3125, 3375, 3625, 3875, 4500]);
    assert_eq!(times(rest(&mut timeline, 1)), [3000, 3000, 3000, 3000, 4000]);
    assert!(timeline.has_whole_seconds);
}

#[test]
fn a_request_is_due_when_the_log_has_come_further_by_the_hold() {
    let mut timeline = Timeline::new(&[Placement::Spread]);
    push(&mut timeline, "/a", "0.5", 0);
    push(&mut timeline, "/b", "60.4", 0);
    assert!(timeline.next(0).is_none());
    push(&mut timeline, "/c", "60.5", 0);
    assert_eq!(timeline.next(0).map(|(at, _)| at - AT), Some(500_000));
    assert!(timeline.next(0).is_none());
    // It arrived before the one that had its turn, so it comes at that time and is late.
    push(&mut timeline, "/d", "60.6", 61);
    assert_eq!(timeline.next(0).map(|(at, _)| at - AT), Some(500_000));
    assert_eq!(timeline.late(), 1);
}

#[test]
fn no_more_requests_wait_than_the_bound() {
    let mut timeline = Timeline::new(&[Placement::Spread]);
    timeline.max_waiting = 3;
    for second in ["1.1", "1.2", "1.3"] {
        push(&mut timeline, "/", second, 0);
    }
    assert!(timeline.next(0).is_none());
    push(&mut timeline, "/", "1.4", 0);
    assert!(timeline.next(0).is_some() && timeline.next(0).is_none());
    let mut whole = Timeline::new(&[Placement::Spread]);
    whole.max_waiting = 3;
    (0..10).for_each(|_| push(&mut whole, "/", "1", 0));
    assert!(whole.open <= 3, "{}", whole.open);
}
