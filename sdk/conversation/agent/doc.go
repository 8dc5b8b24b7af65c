// Package agent has the agents that most programs need: one answer ([Simple]), a
// model that uses tools ([Tool]), and agents one after the other ([Pipeline]).
//
// They are pure, keep no state between executions, and are safe for concurrent
// use. Anything else that implements [conversation.Agent] combines with them.
package agent
