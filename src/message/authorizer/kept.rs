//! Answers that hold for equal questions. Pure: the time is an argument.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::QuestionKey;

/// The largest answer that is kept, in bytes, so that the memory of all has a bound.
pub const MAX_KEPT_BYTES: usize = 4096;

/// Answers by their questions. The oldest give way to new ones.
#[derive(Debug)]
pub struct KeptAnswers<A> {
    max: usize,
    by_question: HashMap<QuestionKey, Kept<A>>,
    /// The questions in the order in which their answers came, each with its number. A question
    /// whose answer was replaced stands here twice.
    order: VecDeque<(QuestionKey, u64)>,
    next_number: u64,
}

#[derive(Debug)]
struct Kept<A> {
    answer: A,
    until: Instant,
    number: u64,
}

impl<A: Clone> KeptAnswers<A> {
    /// Keeps at most `max` answers.
    pub fn new(max: usize) -> Self {
        Self { max, by_question: HashMap::new(), order: VecDeque::new(), next_number: 0 }
    }

    /// The answer that holds at `now`.
    pub fn get(&self, question: QuestionKey, now: Instant) -> Option<A> {
        let kept = self.by_question.get(&question)?;
        (now < kept.until).then(|| kept.answer.clone())
    }

    /// Keeps an answer that came at `now` for `time`.
    pub fn keep(&mut self, question: QuestionKey, answer: A, now: Instant, time: Duration) {
        let Some(until) = now.checked_add(time) else { return };
        let number = self.next_number;
        self.next_number += 1;
        self.by_question.insert(question, Kept { answer, until, number });
        self.order.push_back((question, number));
        while self.order.len() > self.max {
            self.forget_oldest();
        }
        // Answers that no longer hold take no memory for long.
        while self.is_oldest_over(now) {
            self.forget_oldest();
        }
    }

    fn is_oldest_over(&self, now: Instant) -> bool {
        self.order.front().is_some_and(|(question, number)| {
            self.by_question
                .get(question)
                .is_none_or(|kept| kept.number != *number || kept.until <= now)
        })
    }

    fn forget_oldest(&mut self) {
        if let Some((question, number)) = self.order.pop_front()
            && self.by_question.get(&question).is_some_and(|kept| kept.number == number)
        {
            self.by_question.remove(&question);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;
    use tollgate_core::digest::Secret;
    use tollgate_core::time::monotonic;

    use super::super::{AnswerCacheSettings, Question};
    use super::*;

    fn question(number: u64) -> QuestionKey {
        let cache = AnswerCacheSettings { time: Duration::from_secs(1), max: 1, by: vec![] };
        let fields = HeaderMap::from_iter([(http::header::COOKIE, number.into())]);
        let question = Question { fields, protocol: None };
        QuestionKey::of(&cache, &question, &Secret::from_bytes([5; 16]))
    }

    proptest! {
        /// Against a list of all that was kept.
        #[test]
        fn an_answer_holds_until_its_time_or_until_newer_ones_take_its_place(
            max in 1..5_usize,
            steps in prop::collection::vec((0..6_u64, 1..20_u64, 0..4_u64), 1..60),
        ) {
            let begin = monotonic();
            let mut kept = KeptAnswers::new(max);
            let mut model: Vec<(u64, usize, u64)> = Vec::new();
            let mut now_s = 0;
            for (index, (asked, time_s, pause_s)) in steps.into_iter().enumerate() {
                now_s += pause_s;
                let now = begin + Duration::from_secs(now_s);
                for other in 0..6 {
                    let last = model.iter().rev().find(|(number, ..)| *number == other);
                    let expected = last.filter(|(_, at, until_s)| {
                        now_s < *until_s && model.len() - at <= max
                    });
                    let found = kept.get(question(other), now);
                    // What is over may be forgotten earlier than its place is needed.
                    prop_assert!(found.is_none() || found == expected.map(|(_, at, _)| *at));
                    prop_assert!(expected.is_none() || found.is_some());
                }
                kept.keep(question(asked), index, now, Duration::from_secs(time_s));
                model.push((asked, index, now_s + time_s));
                prop_assert!(kept.by_question.len() <= max && kept.order.len() <= max);
            }
        }
    }
}
