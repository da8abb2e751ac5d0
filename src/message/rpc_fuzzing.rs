//! Fuzz targets of messages: those of JSON-RPC in requests, and those of AWS in responses.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tollgate_core::meter::{
    MessageScanner, Meter, MeterSpec, Progress, RpcMessage, Tariff, UsageApi,
};

use super::fuzzing::pieces;

/// A message of JSON-RPC, or a batch.
pub fn messages(input: &[u8]) {
    let Some((&seed, document)) = input.split_first() else { return };
    let scan = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut scanner = MessageScanner::default();
        pieces.for_each(|piece| scanner.read(piece));
        scanner.end()
    };
    let whole = scan(&mut [document].into_iter());
    assert_eq!(scan(&mut pieces(document, seed)), whole, "pieces make a difference");
    let (Ok(found), Ok(parsed)) = (whole, serde_json::from_slice::<Value>(document)) else {
        return;
    };
    let all = parsed.as_array().cloned().unwrap_or_else(|| vec![parsed.clone()]);
    let has = |it: &&Value| it.get("id").is_some() && it.get("method").is_some();
    let calls = u64::try_from(all.iter().filter(has).count()).unwrap_or(u64::MAX);
    assert_eq!(found.calls, calls, "another parser finds other calls");
    if let Some(RpcMessage::Call { id, calls_tool }) = found.message {
        assert!(id.len() <= 256);
        let id: Value = serde_json::from_str(&id).expect("an identifier is JSON");
        assert_eq!((&id, calls_tool), (&parsed["id"], parsed["method"] == "tools/call"));
    }
}

/// An event stream of AWS.
pub fn event_streams(input: &[u8]) {
    let Some((&seed, stream)) = input.split_first() else { return };
    let content_type = HeaderValue::from_static("application/vnd.amazon.eventstream");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
    let spec = MeterSpec::Usage { api: UsageApi::Bedrock, tariff: Tariff::default() };
    let settled = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut meter = Meter::new(&spec, &headers);
        pieces.for_each(|piece| meter.observe(piece));
        meter.finish(StatusCode::OK, Progress::Ended)
    };
    let whole = settled(&mut [stream].into_iter());
    assert_eq!(settled(&mut pieces(stream, seed)), whole, "pieces make a difference");
}
