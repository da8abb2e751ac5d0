//! stand-in while the real one is written
use std::rc::Rc;
use std::sync::Arc;
use bytes::Bytes;
use super::codec::{Encoder, Garbage};
use super::script::Encoded;
use super::RedisSettings;
use crate::digest::SharedSecret;
#[derive(Debug)] pub struct Links;
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)] pub struct Place(u16);
#[derive(Debug, thiserror::Error)] pub enum StoreError { #[error(transparent)] Garbage(#[from] Garbage) }
impl StoreError { pub fn may_have_run(&self) -> bool { false } }
impl Links {
  pub fn open(_: &RedisSettings, _: &Arc<SharedSecret>) -> Self { Self }
  pub fn encoder(&self) -> Option<Rc<Encoder>> { None }
  pub fn place(&self, _: impl FnOnce() -> Bytes) -> Place { Place(0) }
  pub fn call(&self, _: Place, _: Encoded) -> impl Future<Output = Result<Bytes, StoreError>> + 'static { async { todo!() } }
  pub fn is_up(&self) -> bool { false }
  pub fn nodes_alive(&self) -> u64 { 1 }
}
