package pawl

import (
	"fmt"
	"reflect"
)

// Errors that say what happened. Test for them with errors.Is; they come wrapped with the job or the letter that
// they are about. Those that are faults of a call, and not of the world, count as permanent when a handler returns
// them: running the handler again cannot mend them.
var (
	// ErrInvalid is under every *FieldError: something that was handed in breaks a rule, and nothing was changed.
	ErrInvalid error = sentinel{"invalid", ClassPermanent}
	// ErrNotFound means there is no such job or dead letter.
	ErrNotFound error = sentinel{"not found", ClassPermanent}
	// ErrConflict means that a job or letter is not in the state that the operation needs. Nothing was changed.
	ErrConflict error = sentinel{"conflict", ClassPermanent}
	// ErrAlreadyRedriven means that somebody else redrove this letter first; the error text names the new job.
	ErrAlreadyRedriven error = sentinel{"already redriven", ClassPermanent}
	// ErrRedriveRefused means that the job's own policy, or its deadline, forbids this redrive.
	ErrRedriveRefused error = sentinel{"redrive refused", ClassPermanent}
	// ErrConfirm means that the operation needs an explicit confirmation: the effect of a job whose outcome is
	// unknown must be checked before it is run again.
	ErrConfirm error = sentinel{"confirmation needed", ClassPermanent}
	// ErrBatchEnded means that a job cannot join a batch: its callback has been enqueued. Nothing was changed.
	ErrBatchEnded error = sentinel{"batch has ended", ClassPermanent}
	// ErrUnsupported means that this store cannot do what was asked, for example a delay on an inline connection.
	ErrUnsupported error = sentinel{"not supported by this store", ClassPermanent}

	// ErrFinished means that the attempt has already made its transition; the second one changed nothing.
	ErrFinished error = sentinel{"attempt already finished", ClassUnknown}
	// ErrLeaseLost means that the reservation is no longer ours: the job was recovered, cleared or moved. The call
	// changed nothing. It is also the cause of a handler's ctx that was cancelled for that reason.
	ErrLeaseLost error = sentinel{"reservation lost", ClassUnknown}
	// ErrSessionLost means that the store no longer knows this host's session; a new one has to be opened.
	ErrSessionLost error = sentinel{"session lost", ClassUnknown}
	// ErrNoJob means that a job operation was called outside an attempt.
	ErrNoJob error = sentinel{"no job in this context", ClassPermanent}
	// ErrBusy means that the store could not take the write in time because somebody else holds its lock.
	ErrBusy error = sentinel{"store busy", ClassTransient}
	// ErrClosed means that the store was closed.
	ErrClosed error = sentinel{"store closed", ClassUnknown}
	// ErrSchema means that the store's tables are older or newer than this program; the text says what to run.
	ErrSchema error = sentinel{"schema version", ClassPermanent}

	// ErrTimeout is the cause of a handler's ctx that ran out of the job's timeout.
	ErrTimeout error = sentinel{"job timeout", ClassTransient}
	// ErrShutdown is the cause of a handler's ctx that was cancelled because the host's grace was over.
	ErrShutdown error = sentinel{"host is shutting down", ClassUnknown}
	// ErrCancelled is the cause of a handler's ctx that an operator cancelled.
	ErrCancelled error = sentinel{"cancelled by an operator", ClassUnknown}
	// ErrGoexit is recorded when a handler ended its goroutine by runtime.Goexit (t.FailNow, for one).
	ErrGoexit error = sentinel{"handler called runtime.Goexit", ClassUnknown}
)

type sentinel struct {
	text  string
	class Class
}

func (s sentinel) Error() string     { return s.text }
func (s sentinel) errorClass() Class { return s.class }

// FieldError says which input broke which rule. errors.Is(err, ErrInvalid) holds.
type FieldError struct {
	Field string // the name as a user of the API knows it, such as "max tries"
	Value any    // what was given
	Rule  string // what it must be
}

// Error names the field, the value (cut at 80 bytes) and the rule.
func (e *FieldError) Error() string {
	value := fmt.Sprintf("%q", fmt.Sprint(e.Value))
	if len(value) > 80 {
		value = value[:76] + `…"`
	}
	return fmt.Sprintf("invalid %s %s: %s", e.Field, value, e.Rule)
}

// Unwrap makes errors.Is(err, ErrInvalid) hold.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// PoisonError means that a job could not be handed to its handler at all, or must not be: its envelope does not
// decode, nobody knows its kind, its args do not fit. It dies at once, with its raw bytes kept.
type PoisonError struct {
	Reason Reason
	Err    error
}

func (e *PoisonError) Error() string     { return string(e.Reason) + ": " + e.Err.Error() }
func (e *PoisonError) Unwrap() error     { return e.Err }
func (e *PoisonError) errorClass() Class { return ClassPoison }

// PanicError is what an attempt failed with when its handler panicked.
type PanicError struct {
	Value any    // what was passed to panic
	Stack string // of the goroutine that panicked, as runtime/debug prints it
}

// Error prints the value where it is an error, has a String method, or is of a basic type, and else its type: printing a
// value that contains itself would never end. A method that panics itself is reported in the text.
func (e *PanicError) Error() string { return "panic: " + panicText(e.Value) }

func panicText(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("(the text of a %T panicked)", value)
		}
	}()
	switch v := value.(type) {
	case nil:
		return "nil"
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	if kind := reflect.TypeOf(value).Kind(); kind <= reflect.Complex128 || kind == reflect.String {
		return fmt.Sprint(value)
	}
	return fmt.Sprintf("a value of type %T", value)
}

// Unwrap returns the panic's value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
