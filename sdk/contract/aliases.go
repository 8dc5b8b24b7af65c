package contract

// aliases returns other names for types of the catalogue. They are accepted as
// input and never written.
func aliases() map[string]string {
	return map[string]string{
		"invalid-result":                 "runtime/invalid-result",
		"invalid-result-after-retries":   "runtime/invalid-result",
		"queue/full":                     "runtime/overloaded",
		"queue/canceled":                 "canceled",
		"queue/timeout":                  "timeout/hard",
		"queue/unavailable":              "journal/unavailable",
		"queue/not-initialized":          "journal/unavailable",
		"act/middleware-compile-invalid": "act/middleware-invalid",
		"act/middleware-missing-fn":      "act/middleware-invalid",

		// Reported by the workers of local model servers in the past.
		"runtime-not-ready":              "model/not-ready",
		"runtime-port-in-use":            "model/port-in-use",
		"runtime-start-failed":           "model/start-failed",
		"runtime-process-missing":        "model/unavailable",
		"runtime-process-dead":           "model/died",
		"runtime-process-io-unavailable": "model/died",
		"runtime-session-reset-failed":   "model/not-ready",
		"invoke-failed":                  "provider/error",
		"invoke-timeout":                 "provider/timeout",
		"invoke-http-status":             "provider/request-failed",
		"invoke-http-failed":             "provider/unavailable",
		"invoke-http-url-missing":        "provider/not-configured",
		"invoke-not-configured":          "provider/not-configured",
		"quit-not-configured":            "provider/not-configured",
		"reset-not-configured":           "provider/not-configured",
		"unsupported-command":            "provider/request-invalid",
	}
}
