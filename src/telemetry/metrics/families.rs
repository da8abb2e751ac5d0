//! All metrics. docs/metrics.md is made from this file, `rate_limits` and
//! `model_families`.

mod rate_limits;

use super::bounds::{BATCH, CALL, DECISION, OWN, RATIO, REQUEST, SHARE, WAIT};
use super::family::Family;

#[cfg(test)]
pub use rate_limits::ALL as OF_RATE_LIMITS;
pub use rate_limits::*;

macro_rules! families {
    ($($name:ident = $family:expr;)*) => {
        $(pub static $name: Family = $family;)*
        /// All metrics of this file, in the order of the documentation.
        #[cfg(test)]
        pub static ALL: &[&Family] = &[$(&$name),*];
    };
}
pub(super) use families;

families! {
    // Requests
    REQUEST_DURATION = Family::histogram(
        "http_server_request_duration_seconds", REQUEST,
        &["http_request_method", "http_response_status_code", "http_route", "route", "error_type"],
        "seconds",
        "Time from the head of a request to the end of its response.",
    ).chosen(&["http_request_method", "http_response_status_code", "error_type"]);
    ACTIVE_REQUESTS = Family::gauge(
        "http_server_active_requests", &[], "requests", "Requests in progress.",
    );
    OWN_DURATION = Family::histogram(
        "tollgate_own_duration_seconds", OWN, &[], "seconds",
        "Time from the head of a request to the head of its response, without the time that the \
         upstream took and the time for which the request was delayed.",
    );
    CLIENT_DURATION = Family::histogram(
        "http_client_request_duration_seconds", REQUEST,
        &["upstream", "http_response_status_code", "error_type"], "seconds",
        "Time of one attempt at an endpoint, until the head of its response.",
    ).chosen(&["http_response_status_code", "error_type"]);
    REFUSED_REQUESTS = Family::counter(
        "tollgate_refused_requests_total", &[], "requests",
        "Requests that policies did not admit, for any reason. A request that several policies \
         refuse counts once.",
    );
    HELD_BANS = Family::gauge(
        "tollgate_held_bans", &[], "responses",
        "Responses to banned clients that are held back now, by delay of penalty.",
    );
    UNHELD_BANS = Family::counter(
        "tollgate_unheld_bans_total", &[], "responses",
        "Responses to banned clients that were sent at once, because a worker held back 10,000 \
         others.",
    );
    ACCESS = Family::counter(
        "tollgate_access_total", &["list", "result"], "requests",
        "Requests that each access list has judged: `allowed`, `denied`, `shadow_denied` if the \
         list is in shadow mode and would have denied the request, `ambiguous` and `unverifiable` \
         if a value of the request is not certain. Lists after one that denies are not asked.",
    ).on_event();
    // Decisions
    DECISION_DURATION = Family::histogram(
        "tollgate_decision_duration_seconds", DECISION, &["store"], "seconds",
        "Time of a decision of all policies of a route. In memory, one decision of 16 is timed.",
    );
    DECISIONS = Family::counter(
        "tollgate_decisions_total", &["policy", "plan", "outcome"], "decisions",
        "Decisions of each policy.",
    );
    IGNORED_LIMITS = Family::counter(
        "tollgate_ignored_limits_total", &["policy"], "decisions",
        "Decisions for clients whose override, or whose API key's or team's limit, the policy cannot \
         count and ignores.",
    ).on_event();
    AUTH = Family::counter(
        "tollgate_auth_total", &["method", "result"], "requests",
        "Requests on routes that demand a credential, and others that are refused for too many wrong \
         passwords: by its method, none if there was none, and by passed or the reason why it did \
         not pass.",
    ).on_event();
    DECISIONS_BY_SOURCE = Family::counter(
        "tollgate_decisions_by_source_total", &["policy", "source"], "decisions",
        "Decisions of each policy by what has judged: store, local (this node alone), none (the \
         store is away, and on_store_failure decides), unasked (another policy refuses).",
    );
    REFUSED_BEFORE = Family::gauge(
        "tollgate_refused_before_ratio", &["policy"], "ratio",
        "Share of its requests that a policy refused before: in the same five minutes of the day \
         before, or in the whole time of the process until five minutes ago. Absent without an \
         hour of history.",
    ).on_event();
    UTILISATION = Family::histogram(
        "tollgate_utilisation_ratio", SHARE, &["policy"], "ratio",
        "Used units by limit after a decision. One request of 16 is measured.",
    );
    WAIT_TOLD = Family::histogram(
        "tollgate_wait_told_seconds", WAIT, &["policy"], "seconds",
        "Waits that refused clients were told.",
    ).on_event();
    HELD = Family::histogram(
        "tollgate_held_seconds", OWN, &["policy"], "seconds",
        "Times for which admitted requests were to be delayed.",
    ).on_event();
    SHADOW_DISAGREEMENTS = Family::counter(
        "tollgate_shadow_disagreements_total", &["policy", "live"], "decisions",
        "Requests on which a policy in shadow mode and the other policies disagree. live: what \
         the other policies decided.",
    ).on_event();
    PROMISES = Family::counter(
        "tollgate_promises_total", &["policy", "kept"], "requests",
        "Requests of clients that came back after the wait that they had been told, while no unit \
         of theirs had changed. kept: whether they were admitted; false is a defect of the \
         gateway. With the store in memory, a sample of the refused keys is watched: one key of \
         16, and at most 1,024 at a time.",
    ).on_event();
    SETTLED_UNITS = Family::counter(
        "tollgate_settled_units_total", &["policy", "direction"], "units",
        "Units that were corrected when requests had ended. direction: charged or given_back.",
    ).on_event();
    UNSETTLED_REQUESTS = Family::counter(
        "tollgate_unsettled_requests_total", &["policy", "cause"], "requests",
        "Requests whose cost is not known in the end. cause: absent (the response does not state \
         it), encoded (the body is compressed), broken (the response broke off, or the request was \
         sent and no valid response came) or left (the client has left).",
    ).on_event();
    RESERVED_RATIO = Family::histogram(
        "tollgate_reserved_ratio", RATIO, &["policy"], "ratio",
        "Reserved units by the cost in the response. Below 1, the limit can be exceeded.",
    ).on_event();
    WARNED = Family::counter("tollgate_warned_total", &["policy", "share"], "keys",
        "Clients that have passed this share of their limit, in percent.").on_event();
    IN_FLIGHT_UNITS = Family::gauge(
        "tollgate_in_flight_units", &["policy"], "units",
        "Units of a concurrency limit that requests of this node hold.",
    ).on_event();
    DEBT_UNITS = Family::counter(
        "tollgate_debt_units_total", &["policy", "fate"], "units",
        "Units that this node has counted while the store was away. fate: owed (counted by this \
         node), reported (counted by the store when it was back), unknown (sent without a reply) \
         or dropped (for want of room). Owed units that expire are not reported.",
    ).on_event();
    LEASE_UNITS = Family::counter(
        "tollgate_lease_units_total", &["policy", "fate"], "units",
        "Units of leases. fate: taken (from the store), spent, returned, or expired (too few to \
         return). The last three are counted when a lease ends.",
    ).on_event();
    UNSENT_UNITS = Family::gauge(
        "tollgate_unsent_units", &["policy"], "units",
        "Units that this node has counted and not reported to the store yet (write_back). At most \
         10 seconds old.",
    ).on_event();
    OVERRIDE_LOOKUPS = Family::counter(
        "tollgate_override_lookups_total", &["result"], "lookups",
        "Lookups of limits of single keys. result: hit (a known limit), negative (known to have \
         none), asked (the request waited for the answer), late (the answer did not come in time).",
    ).on_event();
    KEY_LOOKUPS = Family::counter(
        "tollgate_key_lookups_total", &["result"], "lookups",
        "Lookups of API keys that the file does not have. result: hit (a known key), unknown (known \
         to be none), asked (the request waited for the answer), stale (the store did not answer, \
         and the key was accepted as it was last known), away (the store did not answer, and the \
         key was not known).",
    ).on_event();
    KEY_STORE_AWAY = Family::gauge(
        "tollgate_key_store_away", &["cause"], "",
        "1 while the store of the API keys cannot be read, otherwise 0. cause: not_read (it does not \
         answer), no_sign (it has no sign that it has keys, as a store that was emptied).",
    ).on_event();
    KEYS_IN_FILE_AND_STORE = Family::gauge(
        "tollgate_keys_in_file_and_store", &[], "keys",
        "API keys whose id is both in the file and in the store. Those of the file hold.",
    ).on_event();
    LIMIT_UNITS = Family::gauge(
        "tollgate_limit_units", &["policy", "plan"], "units",
        "Limit of a policy; plan is empty for its own limit.",
    );
    LIMIT_WINDOW = Family::gauge(
        "tollgate_limit_window_seconds", &["policy"], "seconds",
        "Window of a policy; 0 if time does not matter. A month has its mean length, 2629746.",
    );
    POLICY_INFO = Family::gauge(
        "tollgate_policy_info", &["policy", "mode", "algorithm", "patched"], "",
        "1 for each policy that a route uses. patched: whether its values were changed at run time.",
    );
    // Store
    STORE_KEYS = Family::gauge(
        "tollgate_store_keys", &[], "keys",
        "Keys in the memory of this node that have not expired. Each second a part is counted anew, \
         so a number is one second old for each 57,000 keys for which there is room.",
    );
    STORE_KEYS_MAX = Family::gauge(
        "tollgate_store_keys_max", &[], "keys", "Keys for which the memory of this node has room.",
    );
    STORE_EVICTIONS = Family::counter(
        "tollgate_store_evictions_total", &["in_debt"], "keys",
        "Keys that were forgotten for want of room before they had expired. Each of them had used \
         a part of its limit, so in_debt is true.",
    );
    BREAKER_OPEN = Family::gauge(
        "tollgate_breaker_open", &["server"], "workers",
        "Workers that do not use a server of the store: it has failed repeatedly, and answered no \
         decision since.",
    ).on_event();
    STORE_AWAY = Family::gauge(
        "tollgate_store_away", &["server", "cause"], "connections",
        "Connections and tasks of this node that do not use a server of the store, by the cause \
         that was found last.",
    ).on_event();
    STORE_RENEWALS_REFUSED = Family::gauge(
        "tollgate_store_renewals_refused", &["server", "cause"], "connections",
        "Connections of this node to a server of the store that could not adopt new credentials or \
         certificates, and use the old ones. The server password_command is the program that prints \
         the password, if it fails.",
    ).on_event();
    STORE_DIFFERS = Family::gauge(
        "tollgate_store_differs", &["server", "how"], "",
        "1 for each server of the store that differs from others. how: slots (hash slots behind one \
         address) or no_time_in_scripts (scripts are given the gateway's estimate of the time).",
    ).on_event();
    REPLICAS_AWAY = Family::gauge(
        "tollgate_store_replicas_away", &[], "replicas",
        "Replicas of the store that are not read, so that the master is read instead.",
    ).on_event();
    STORE_CALLS = Family::counter(
        "tollgate_store_calls_total", &["server", "result"], "batches",
        "Batches of calls to a server of the store. result: answered or failed.",
    ).on_event();
    STORE_OVERLOADS = Family::counter(
        "tollgate_store_overloads_total", &["server"], "calls",
        "Calls that were not sent to a server of the store and were answered by 503, because those that wait take too much memory.",
    ).on_event();
    STORE_CALL_ERRORS = Family::counter(
        "tollgate_store_call_errors_total", &["server", "cause"], "calls",
        "Calls to a server of the store that failed while it decided others. cause: foreign_data (a key under the prefix has data of another program), not_redis (the reply cannot be read), cluster_node (the server is a node of a cluster, and the URL names it alone) or refused (another error).",
    ).on_event();
    STORE_CALL_DURATION = Family::histogram(
        "tollgate_store_call_duration_seconds", CALL, &["server"], "seconds",
        "Time of a batch of calls to a server of the store, until its replies or the timeout.",
    ).on_event();
    STORE_BATCH_SIZE = Family::histogram(
        "tollgate_store_batch_size", BATCH, &["server"], "calls",
        "Calls in a batch to a server of the store.",
    ).on_event();
    STORE_CLOCK_OFFSET = Family::gauge(
        "tollgate_store_clock_offset_seconds", &["server"], "seconds",
        "Clock of a server of the store minus the clock of this node, by the last decision. The \
         error is at most half of the time of a call.",
    ).on_event();
    NODES = Family::gauge(
        "tollgate_nodes", &[], "nodes", "Nodes that share the store and are alive, with this one.",
    ).on_event();
    NODES_WITH_OTHER_CONFIG = Family::gauge(
        "tollgate_nodes_with_other_config", &["section"], "nodes",
        "Nodes that share the store and whose configuration differs from that of this one in a \
         section: check, client, defaults, policies, routes or store.",
    ).on_event();
    NODES_NOT_COMPARED = Family::gauge(
        "tollgate_nodes_not_compared", &[], "nodes",
        "Nodes that share the store, and whose version does not say whether their configuration is \
         equal to that of this one.",
    ).on_event();
    LOST_UNITS = Family::counter(
        "tollgate_unreported_units_total", &["fate"], "units",
        "Units that this node has admitted and the store may not have counted. fate: unknown (sent \
         without an answer), forgotten (never sent, for want of room).",
    ).on_event();
    UNRETURNED_UNITS = Family::counter(
        "tollgate_unreturned_units_total", &["fate"], "units",
        "Units that this node has given back, and that may stay charged in the store until they \
         expire. fate: unknown (sent without an answer), dropped (never sent, because too many waited).",
    ).on_event();
    // Upstreams
    UPSTREAM_ENDPOINTS = Family::gauge(
        "tollgate_upstream_endpoints", &["upstream", "state"], "endpoints",
        "Endpoints by state: up, starting (slow start), down (checks fail), ejected (requests fail).",
    );
    UPSTREAM_IN_FLIGHT = Family::gauge(
        "tollgate_upstream_in_flight", &["upstream"], "requests",
        "Requests in flight to an upstream that has max_in_flight.",
    ).on_event();
    UPSTREAM_OPEN = Family::gauge(
        "tollgate_upstream_open_connections", &["upstream"], "connections",
        "Connections to all endpoints of an upstream that has max_connections.",
    ).on_event();
    UPSTREAM_WAITING = Family::gauge(
        "tollgate_upstream_waiting", &["upstream"], "requests",
        "Requests that wait for a connection to an upstream that has max_connections.",
    ).on_event();
    UPSTREAM_QUEUE = Family::histogram(
        "tollgate_upstream_queue_seconds", REQUEST, &["upstream"], "seconds",
        "Time for which a request has waited for a connection to an upstream that has \
         max_connections, also if it got none. Requests that get one at once are not counted.",
    ).on_event();
    UPSTREAM_QUEUE_REFUSED = Family::counter(
        "tollgate_upstream_queue_refused_total", &["upstream", "cause"], "requests",
        "Requests that got 503 because of max_connections. cause: full (as many requests waited as \
         may wait) or timeout.",
    ).on_event();
    UPSTREAM_RETRIES = Family::counter(
        "tollgate_upstream_retries_total", &["upstream", "cause"], "retries",
        "Requests that were sent again. cause: connect, reset, unprocessed (the endpoint says so), \
         502, 503 or 504.",
    ).on_event();
    UPSTREAM_FALLBACKS = Family::counter(
        "tollgate_upstream_fallbacks_total", &["upstream", "cause", "result"], "requests",
        "Requests of an upstream that the fallback of their route was to get. cause: connect, reset \
         or the status. result: sent, or over_budget (the retry budget was used up).",
    ).on_event();
    UPSTREAM_CONNECTIONS = Family::counter(
        "tollgate_upstream_connections_total", &["upstream", "kind"], "connections",
        "Connections that attempts used: new, or reused from the pool.",
    );
    MIRRORED = Family::counter(
        "tollgate_mirrored_total", &["upstream", "result"], "requests",
        "Requests that a route has chosen for its mirror. result: sent, failed (no whole answer in \
         time), skipped_busy (max_in_flight), skipped_body (larger than max_body), \
         skipped_incomplete (the body was not read to its end).",
    ).on_event();
    UPSTREAM_EXCESS = Family::counter(
        "tollgate_upstream_excess_total", &["upstream"], "connections",
        "Connections that were closed because the endpoint has sent bytes behind a response.",
    );
    COMPRESSED = Family::counter(
        "tollgate_compressed_total", &["result"], "responses",
        "Responses whose client accepts that they are compressed. result: gzip, or busy (not \
         compressed, because the worker compresses 256 others).",
    ).on_event();
    BODY_MEMORY = Family::gauge(
        "tollgate_body_memory_bytes", &[], "bytes",
        "Memory of the bodies that are read before they are forwarded, of runtime.body_memory.",
    );
    // Authorizers
    AUTHORIZER_DURATION = Family::histogram(
        "tollgate_authorizer_duration_seconds", REQUEST, &["authorizer", "result"], "seconds",
        "Time of a question to an authorizer, until its whole answer. result: passed, refused or \
         failed.",
    ).on_event();
    AUTHORIZER_FAILURES = Family::counter(
        "tollgate_authorizer_failures_total", &["authorizer", "reason"], "questions",
        "Questions to an authorizer without an answer. reason: timeout, status (5xx), too_large, \
         grpc_status (a call that failed), message (no answer of the service), or why the \
         authorizer could not be reached.",
    ).on_event();
    AUTHORIZER_IGNORED = Family::counter(
        "tollgate_authorizer_ignored_total", &["authorizer"], "answers",
        "Answers of an authorizer over gRPC that demand changes which are not made: fields that \
         are not in take, and others.",
    ).on_event();
    AUTHORIZER_REUSED = Family::counter(
        "tollgate_authorizer_reused_total", &["authorizer", "source"], "requests",
        "Requests for which no question was sent, because an answer to an equal question was \
         kept, or shared while it was awaited.",
    ).on_event();
    // The process
    CONNECTIONS = Family::gauge(
        "tollgate_connections", &["listener"], "connections", "Open connections of clients.",
    );
    CONNECTIONS_ENDED = Family::counter(
        "tollgate_connections_ended_total", &["listener", "cause"], "connections",
        "Connections of clients that have ended.",
    );
    OTHER_LISTENERS = Family::gauge(
        "tollgate_other_listeners", &["listener"], "processes",
        "Other processes that listen on the address of a listener, and get connections of it.",
    ).on_event();
    UNBELIEVED_REQUESTS = Family::counter(
        "tollgate_unbelieved_requests_total", &[], "requests",
        "Requests that name a client in X-Forwarded-For or Forwarded, and whose peer is not among \
         client.trusted_proxies.",
    );
    UNBELIEVED_CLIENTS = Family::gauge(
        "tollgate_unbelieved_clients", &[], "clients",
        "Most clients that one such peer has named in the last five to ten minutes: 100 at most, \
         and 0 if none has named two.",
    );
    TLS_HANDSHAKES = Family::counter(
        "tollgate_tls_handshakes_total", &["listener", "result"], "handshakes",
        "TLS handshakes of clients. result: ok, failed or timeout.",
    ).on_event();
    MALFORMED_REQUESTS = Family::counter(
        "tollgate_malformed_requests_total", &["cause"], "requests",
        "Requests that were refused because their bytes are no request, too many, or too late.",
    ).on_event();
    RECEIVED_BYTES = Family::counter(
        "tollgate_received_bytes_total", &["side"], "bytes",
        "Bytes of HTTP that were received, without TLS. side: client (counted in steps of 16 KiB, \
         and when a connection ends) or upstream (counted at most 100 ms later, without \
         health checks).",
    );
    SENT_BYTES = Family::counter(
        "tollgate_sent_bytes_total", &["side"], "bytes",
        "Bytes of HTTP that were sent, without TLS, counted in the same way.",
    );
    ADMIN_REQUESTS = Family::counter(
        "tollgate_admin_requests_total", &["call", "status"], "calls",
        "Calls of the admin listener. call: method and path as docs/admin.md writes them, or \
         unknown.",
    ).on_event();
    ADMIN_AUTH_FAILURES = Family::counter(
        "tollgate_admin_auth_failures_total", &[], "calls",
        "Calls of the admin listener without a credential, or with one that is not valid.",
    ).on_event();
    CONFIG_GENERATION = Family::gauge(
        "tollgate_config_generation", &[], "",
        "Number of the configuration in use: 1 at the start, one more after each reload.",
    );
    CONFIG_LAST_RELOAD = Family::gauge(
        "tollgate_config_last_reload_successful", &[], "",
        "1 if the last reload was successful or there was none, otherwise 0.",
    );
    CERTIFICATE_EXPIRY = Family::gauge(
        "tollgate_certificate_expiry_timestamp_seconds", &["name"], "seconds",
        "When a certificate that the gateway shows expires, in seconds since 1970. name: its first name.",
    ).on_event();
    CERTIFICATE_START = Family::gauge(
        "tollgate_certificate_not_before_timestamp_seconds", &["name"], "seconds",
        "When a certificate that the gateway shows becomes valid, in seconds since 1970. name: its first name.",
    ).on_event();
    KEY_SET_LAST_FETCH = Family::gauge(
        "tollgate_key_set_last_fetch_successful", &["set"], "",
        "1 if the key set was fetched at the last attempt, otherwise 0. set: its URL without secrets.",
    ).on_event();
    KEY_FILE_LAST_LOAD = Family::gauge(
        "tollgate_key_file_last_load_successful", &["file"], "",
        "1 if the file of the API keys was read at the last reload, 0 if it has mistakes and the keys \
         that were read before stay in force. file: as the configuration names it.",
    ).on_event();
    CLASS_FILE_LAST_LOAD = Family::gauge(
        "tollgate_class_file_last_load_successful", &["file"], "",
        "1 if the file of the classes of clients was read at the last reload, 0 if it has mistakes and the \
         classes that were read before stay in force. file: as the configuration names it.",
    ).on_event();
    PASSWORD_FILE_LAST_LOAD = Family::gauge(
        "tollgate_password_file_last_load_successful", &["file"], "",
        "1 if the file of users and passwords was read at the last reload, 0 if it has mistakes and the \
         users that were read before stay in force. file: as the configuration names it.",
    ).on_event();
    PASSWORDS_WAITING = Family::gauge(
        "tollgate_passwords_waiting", &[], "passwords",
        "Passwords that wait for their check: 64 at most.",
    ).on_event();
    PASSWORD_CHECKS = Family::counter(
        "tollgate_password_checks_total", &["result"], "passwords",
        "Passwords whose hash was computed. result: right, wrong.",
    ).on_event();
    KEYS_LEFT_OUT = Family::gauge(
        "tollgate_key_set_keys_left_out", &["set"], "keys",
        "Keys of the key set that cannot be used. set: its URL without secrets, or its file.",
    ).on_event();
    LOG_LINES_DROPPED = Family::counter(
        "tollgate_log_lines_dropped_total", &["log"], "lines",
        "Lines of a log that were dropped, because its output was too slow or failed.",
    ).on_event();
    SPANS_DROPPED = Family::counter(
        "tollgate_spans_dropped_total", &[], "spans",
        "Spans that were dropped, because too many waited for the collector.",
    ).on_event();
    SPANS_EXPORTED = Family::counter(
        "tollgate_spans_exported_total", &["result"], "spans",
        "Spans that were sent to the collector. result: ok, error.",
    ).on_event();
    WORKER_BUSY = Family::seconds(
        "tollgate_worker_busy_seconds_total", &["worker"], "Processor time of a worker.",
    );
    WORKER_LAG = Family::histogram(
        "tollgate_worker_lag_seconds", OWN, &[], "seconds",
        "How late a timer of a worker fires, which is how long other work has kept it.",
    );
    SERIES_FULL = Family::gauge(
        "tollgate_series_full", &[], "",
        "1 if a series had no room (telemetry.metrics.max_series), otherwise 0. Such requests count \
         in series with `_overflow` and with classes of statuses.",
    );
    BUILD_INFO = Family::gauge("tollgate_build_info", &["version"], "", "1, with the version.");
    PROCESS_CPU = Family::counter(
        "process_cpu_seconds_total", &[], "seconds", "Processor time of the process.",
    );
    PROCESS_OPEN_FDS = Family::gauge("process_open_fds", &[], "files", "Open file descriptors.");
    PROCESS_MAX_FDS = Family::gauge(
        "process_max_fds", &[], "files", "Most file descriptors that may be open.",
    );
    PROCESS_VIRTUAL_MEMORY = Family::gauge(
        "process_virtual_memory_bytes", &[], "bytes", "Virtual memory.",
    );
    PROCESS_RESIDENT_MEMORY = Family::gauge(
        "process_resident_memory_bytes", &[], "bytes", "Resident memory.",
    );
    PROCESS_START_TIME = Family::gauge(
        "process_start_time_seconds", &[], "seconds",
        "When the process was started, in seconds since 1970.",
    );
    PROCESS_THREADS = Family::gauge("process_threads", &[], "threads", "Threads of the process.");
}
