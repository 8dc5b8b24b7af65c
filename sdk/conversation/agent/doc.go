// Package agent has the agents that most programs need: one answer ([Simple]), a
// model that uses tools ([Tool]), agents one after the other ([Pipeline]), and an
// agent with instructions ([Instructed]).
//
// They are pure, keep no state between executions, and are safe for concurrent
// use. Anything else that implements [conversation.Agent] combines with them.
package agent
