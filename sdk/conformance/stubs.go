package conformance

func startChecks() []Check     { return nil }
func payloadChecks() []Check   { return nil }
func pressureChecks() []Check  { return nil }
func faultChecks() []Check     { return nil }
func modelChecks() []Check     { return nil }
func judgeChecks() []Check     { return nil }
func checkerChecks() []Check   { return nil }
func solverChecks() []Check    { return nil }
func toolChecks() []Check      { return nil }
func agentChecks() []Check     { return nil }
func streamingChecks() []Check { return nil }
func hostCallChecks() []Check  { return nil }
func muxChecks() []Check       { return nil }
func swapChecks() []Check      { return nil }
