//! What a reading costs.

use tollgate_core::time::Clock;

use super::*;
use crate::telemetry::Metrics;

/// Prints what a reading for the status costs:
/// `cargo test --release --lib cost_of_a_reading -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, and asserts nothing"]
fn cost_of_a_reading_for_the_status() {
    const READINGS: u64 = 500;
    let metrics = Metrics::new(10_000);
    let workers = [metrics.worker(), metrics.worker()];
    for worker in &workers {
        for number in 0..100 {
            let name = format!("policy-{number}");
            for outcome in ["admitted", "refused", "exempt"] {
                worker.counter(&families::DECISIONS, &[&name, "", outcome]).increment();
            }
            worker.counter(&families::DECISIONS_BY_SOURCE, &[&name, "store"]).increment();
            worker.histogram(&families::UTILISATION, &[&name]).observe(500);
        }
        for number in 0..10 {
            for status in ["200", "404", "429", "502"] {
                let labels = ["GET", status, "/*", &format!("route-{number}"), ""];
                worker.histogram(&families::REQUEST_DURATION, &labels).observe(700);
            }
        }
    }
    let (clock, mut window, mut now) = (Clock::System, Window::default(), Timestamp::default());
    let (mut reading, mut judging) = (0, 0);
    for _ in 0..READINGS {
        now = now.plus(READ_INTERVAL);
        let begun = clock.now();
        let samples = metrics.samples();
        let read = clock.now();
        window.read(&samples, now);
        reading += read.since(begun).as_micros();
        judging += clock.now().since(read).as_micros();
    }
    println!("reading: {} us; judging: {} us", reading / READINGS, judging / READINGS);
}
