package conformance

import (
	_ "embed"

	"github.com/fermenthq/ferment/sdk/edn"
)

//go:embed report.edn
var reportSchema string

// ReportSchema returns the schema of [Report.Value] in version 1, the current one.
func ReportSchema() edn.Value { return edn.MustRead(reportSchema) }
