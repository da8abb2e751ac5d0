//! The metrics of the rate limit service, most of them by the names of envoyproxy/ratelimit.

use super::super::bounds::OWN;
use super::super::family::Family;
use super::families;

families! {
    RATE_LIMIT_TOTAL = Family::counter(
        "ratelimit_service_rate_limit_total_hits", &["domain", "key1", "key2"], "hits",
        "Hits that the rate limit service has counted for descriptors with a limit. key1, key2: the \
         first entries of the descriptor; of more than 1,000 in a domain, the others are other.",
    ).on_event().chosen(&["key1", "key2"]);
    RATE_LIMIT_OVER = Family::counter(
        "ratelimit_service_rate_limit_over_limit", &["domain", "key1", "key2"], "hits",
        "Those of the hits that were over their limit.",
    ).on_event().chosen(&["key1", "key2"]);
    RATE_LIMIT_NEAR = Family::counter(
        "ratelimit_service_rate_limit_near_limit", &["domain", "key1", "key2"], "hits",
        "Those of the hits that were within their limit and beyond 80 % of it.",
    ).on_event().chosen(&["key1", "key2"]);
    RATE_LIMIT_WITHIN = Family::counter(
        "ratelimit_service_rate_limit_within_limit", &["domain", "key1", "key2"], "hits",
        "Those of the hits that came with descriptors within their limit.",
    ).on_event().chosen(&["key1", "key2"]);
    RATE_LIMIT_SHADOW = Family::counter(
        "ratelimit_service_rate_limit_shadow_mode", &["domain", "key1", "key2"], "hits",
        "Those of the hits that were over a limit in shadow mode.",
    ).on_event().chosen(&["key1", "key2"]);
    RATE_LIMIT_GLOBAL_SHADOW = Family::counter(
        "ratelimit_service_global_shadow_mode", &[], "calls",
        "Calls that only the shadow mode of the whole rate limit service has admitted.",
    ).on_event();
    RATE_LIMIT_UNKNOWN_DOMAIN = Family::counter(
        "ratelimit_service_rate_limit_domain_not_found", &[], "calls",
        "Calls of the rate limit service with a domain that is not configured.",
    ).on_event();
    RATE_LIMIT_ALONE = Family::counter(
        "tollgate_ratelimit_descriptors_alone_total", &["domain", "policy"], "descriptors",
        "Descriptors with values that cannot be the key of their policy: they do not share the \
         counter of the gateway.",
    ).on_event();
    RATE_LIMIT_CALLS = Family::counter(
        "ratelimit_service_total_requests", &["grpc_method"], "calls",
        "Calls of the rate limit service.",
    ).on_event();
    RATE_LIMIT_ERRORS = Family::counter(
        "ratelimit_service_should_rate_limit_error", &["err_type"], "calls",
        "Calls of the rate limit service that failed. err_type: service_error.",
    ).on_event();
    RATE_LIMIT_CONFIG_SUCCESS = Family::counter(
        "ratelimit_service_config_load_success", &[], "reloads",
        "Reloads of the configuration and of the rate limit service's directory.",
    ).on_event();
    RATE_LIMIT_CONFIG_ERROR = Family::counter(
        "ratelimit_service_config_load_error", &[], "reloads",
        "Reloads that failed, so that the configuration in use has stayed.",
    ).on_event();
    RATE_LIMIT_CALL_DURATION = Family::histogram(
        "ratelimit_service_response_time_seconds", OWN, &["grpc_method"], "seconds",
        "Time of a call of the rate limit service.",
    ).on_event();
    XDS_CONNECTED = Family::gauge(
        "tollgate_ratelimit_xds_connected", &["server"], "",
        "1 if there is a connection to the xDS server, which answers, otherwise 0.",
    ).on_event();
    XDS_AGE = Family::gauge(
        "tollgate_ratelimit_xds_age_seconds", &["server"], "seconds",
        "Time since the last limits of the xDS server that were taken. Absent: none were taken yet.",
    ).on_event();
    XDS_LAST_TAKEN = Family::gauge(
        "tollgate_ratelimit_xds_last_response_taken", &["server"], "",
        "1 if the last limits of the xDS server were taken, 0 if they have mistakes and the limits before \
         stay. Absent: there were none yet.",
    ).on_event();
}
