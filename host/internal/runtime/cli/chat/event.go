package chat

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Event reports progress while a line is executed. Its type is one of the types below.
type Event any

type (
	// Asking reports the capability that is called for an answer.
	Asking struct{ Capability string }
	// Piece is a part of the text of an answer that may still be retracted.
	Piece struct{ Text string }
	// Retracted reports that the pieces so far are not part of the answer.
	Retracted struct{ Reason string }
	// Answer is an accepted answer. Value is the output of the intent.
	Answer struct {
		Text  string
		By    string // the model, otherwise the capability; may be empty
		Value edn.Value
	}
	// Said is an earlier message of the conversation.
	Said struct{ Role, By, Text string }
	// Note is a message of the program itself.
	Note struct{ Text string }
	// Moved reports that the conversation or the model has changed.
	Moved struct{ Conversation, Model string }
	// Offer is a line that is put into the input for editing. Draft is the id of the unanswered
	// message with this text; empty: none.
	Offer struct{ Line, Draft string }
	// Unsent reports that the line succeeded, but did not send the unanswered message that it was
	// created from.
	Unsent struct{}
	// Discarded reports that the unanswered messages were deleted.
	Discarded struct{}
	// Failed reports that a line failed or was canceled. Again is a line that repeats it.
	Failed struct {
		Err      *contract.Error
		Again    Offer
		Canceled bool
	}
	// Quit ends the talk.
	Quit struct{}
)
