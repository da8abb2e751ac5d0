//! `store.redis.password_command`: a program that prints the password.

use std::ops::RangeInclusive;
use std::time::Duration;

use tollgate_core::time::Span;

use super::redis::RawRedis;
use crate::config::model::PasswordCommand;
use crate::config::sections::context::Context;

/// With a shorter one, the program would run all the time. A longer one is no reason for a program.
const LIFETIME: RangeInclusive<Span> = Span::from_secs(10)..=Span::from_secs(24 * 3600);
/// Tokens of services are valid for at least this time.
const USUAL_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// More arguments than any program needs.
const MAX_ARGUMENTS: usize = 100;

impl RawRedis {
    /// The program that prints the password, if there is one.
    pub fn password_command(&self, cx: &Context<'_>) -> Option<PasswordCommand> {
        let Self { password_command: command, password_lifetime: lifetime, .. } = self;
        let name = "password_lifetime";
        if let (Some(span), true) = (lifetime.span(), command.is_absent()) {
            let advice = "write password_command, or leave it out";
            cx.warning(span, "this has no effect without \"password_command\"", advice);
        }
        let lifetime = cx.duration(lifetime, name, LIFETIME).map(Duration::from);
        let advice = "like password_command: [/usr/local/bin/redis-token, --user, tollgate]";
        cx.not_empty(command, "the \"password_command\" is empty", advice);
        cx.at_most(command, "password_command", MAX_ARGUMENTS);
        let mut words = command.items();
        let program = words.next()?;
        if program.value.is_empty() {
            cx.error(program.span, "the program has no name", advice);
        } else if program.value.contains(' ') && command.items().count() == 1 {
            let message = "there is no shell that would divide this into a program and arguments";
            cx.error(program.span, message, advice);
        }
        Some(PasswordCommand {
            program: program.value.clone(),
            arguments: words.map(|word| word.value.clone()).collect(),
            directory: cx.around.directory.to_owned(),
            lifetime: lifetime.unwrap_or(USUAL_LIFETIME),
        })
    }
}
