package spans

// Conventions is the version of the OpenTelemetry semantic conventions that define the
// names in this file. The gen_ai conventions are not stable: a new version changes names
// here and nowhere else.
const Conventions = "1.41.0"

// Attributes, events and their values: those of the conventions (error, gen_ai), and those of this
// project (ferment).
const (
	AttrError             = "error.type"
	attrOperationName     = "gen_ai.operation.name"
	attrProvider          = "gen_ai.provider.name"
	attrRequestModel      = "gen_ai.request.model"
	attrResponseModel     = "gen_ai.response.model"
	attrFinishReasons     = "gen_ai.response.finish_reasons"
	attrInputTokens       = "gen_ai.usage.input_tokens"
	attrOutputTokens      = "gen_ai.usage.output_tokens"
	attrToolName          = "gen_ai.tool.name"
	attrWorkflow          = "gen_ai.workflow.name"
	attrConversation      = "gen_ai.conversation.id"
	attrEvaluation        = "gen_ai.evaluation.name"
	attrScore             = "gen_ai.evaluation.score.value"
	attrScoreLabel        = "gen_ai.evaluation.score.label"
	attrExplanation       = "gen_ai.evaluation.explanation"
	EventEvaluation       = "gen_ai.evaluation.result"
	operationWorkflow     = "invoke_workflow"
	operationPlan         = "plan"
	operationChat         = "chat"
	operationTool         = "execute_tool"
	labelPass             = "pass"
	labelFail             = "fail"
	operationSpan         = "ferment.operation"
	attrConventions       = "ferment.conventions"
	attrRun               = "ferment.run.id"
	attrEpoch             = "ferment.run.epoch"
	attrStatus            = "ferment.run.status"
	attrResumed           = "ferment.run.resumed"
	attrClass             = "ferment.queue.class"
	attrCache             = "ferment.cache"
	attrRoute             = "ferment.route.outcome"
	attrNode              = "ferment.node"
	attrPath              = "ferment.path"
	attrPolicy            = "ferment.policy"
	attrStrategy          = "ferment.strategy"
	attrOutcome           = "ferment.outcome"
	attrCapability        = "ferment.capability"
	attrCapabilityVersion = "ferment.capability.version"
	attrCapabilityKind    = "ferment.capability.kind"
	attrAttempt           = "ferment.attempt"
	attrRound             = "ferment.repair.round"
	attrCost              = "ferment.cost.usd"
	attrSeverity          = "ferment.gate.severity"
	attrRequestHash       = "ferment.request.hash"
	attrResponseHash      = "ferment.response.hash"
	attrRequest           = "ferment.request"
	attrResponse          = "ferment.response"
)

// Metrics of the conventions, and the attributes of metrics.
const (
	MetricTokens    = "gen_ai.client.token.usage"
	MetricModelTime = "gen_ai.client.operation.duration"
	MetricWorkflow  = "gen_ai.workflow.duration"

	AttrOperationName = attrOperationName
	AttrTokenType     = "gen_ai.token.type"
	AttrWorkflow      = attrWorkflow
	AttrCapability    = attrCapability
	OperationChat     = operationChat
)

// Outcomes of runs and operations that records do not have.
const (
	statusSuspended   = "suspended"
	statusInterrupted = "interrupted" // its host stopped while it executed
	outcomeCommitted  = "committed"
	outcomeKept       = "kept" // the failure is the value of the node
	outcomeFailed     = "failed"
	outcomeCanceled   = "canceled"
)
