//! `tollgate import`: configurations of other gateways, translated to `gateway.yaml`.
//!
//! This crate is a part of the gateway `tollgate`. It is not published, and its interface may
//! change in any commit. Its readers are engineers that change the translation of a construct of
//! nginx, ingress-nginx, Kong, Traefik or envoyproxy/ratelimit. It does not depend on the gateway:
//! [`import`] gives the text of a `gateway.yaml` and a [`Report`], and the gateway checks the text
//! before it is written.
//!
//! Each kind has a module with a table: one row for each construct. A row says that the construct
//! is read, is needless here, or is lost and why. A construct that is read is reported by the code
//! that reads it. A construct without a row counts as a loss, because it may be an access rule.
//!
//! The same input gives the same bytes. Nothing is fetched and no clock is read. Files are bounded
//! by [`MAX_BYTES`] in all, and nesting by the parsers. An included file must be below a directory of
//! a file that was named. Values that are likely secrets become `${NAME}`, and no message has them.

// As in the gateway: modules are private, and `pub` is what a module offers.
#![allow(unreachable_pub)]

mod envoy;
mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod ingress;
mod job;
mod kind;
mod kong;
mod network;
mod nginx;
mod node;
mod notes;
mod out;
mod plan;
mod quantity;
mod report;
mod secret;
mod table;
mod traefik;
mod weights;

pub use files::{MAX_BYTES, Unreadable};
pub use job::Job;
pub use kind::Kind;
pub use report::{Class, Construct, Loss, Report};

use files::{Files, Place};
use notes::Notes;
use plan::Plan;

/// A translated configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The text of `gateway.yaml`, or why nothing of the files can be used.
    pub yaml: Result<String, Unreadable>,
    /// What became of each construct.
    pub report: Report,
}

/// Translates the files.
///
/// # Errors
/// If a file cannot be read, is a template, or is not of this kind.
pub fn import(job: &Job) -> Result<Imported, Unreadable> {
    let mut files = Files::open(&job.files)?;
    let mut notes = Notes::new(job.rest.clone());
    let plan = match job.kind {
        Kind::Nginx => nginx::read(&mut files, job, &mut notes)?,
        Kind::IngressNginx => ingress::read(&files, job, &mut notes)?,
        Kind::Kong => kong::read(&files, job, &mut notes)?,
        Kind::Traefik => traefik::read(&files, job, &mut notes)?,
        Kind::EnvoyRatelimit => envoy::read(&files, &mut notes)?,
    };
    Ok(finished(plan, notes, &files, job))
}

fn finished(mut plan: Plan, notes: Notes, files: &Files, job: &Job) -> Imported {
    if let Some(url) = notes.rest() {
        plan.others_to(url);
    }
    let yaml = match plan.lack() {
        Some(why) => Err(files.unreadable(Place::default(), why)),
        None => Ok(plan.text(job.kind, files.names(), files.sources().len())),
    };
    let report = notes.report(job.kind, files.names(), &job.accept, plan.variables());
    Imported { yaml, report }
}
