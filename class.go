package pawl

import (
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/pawljobs/pawl/internal/chain"
)

// Class is what an error says about trying again. The place to decide it is where the outside world is called:
// wrap the error in Permanent or Transient there, and every layer above keeps it.
type Class uint8

const (
	ClassUnknown   Class = iota // nobody said: retried, the safe default
	ClassTransient              // worth another try
	ClassPermanent              // no try can succeed: a death at once
	ClassPoison                 // cannot even be handed to its handler: a death at once
)

func (c Class) String() string {
	switch c {
	case ClassTransient:
		return "transient"
	case ClassPermanent:
		return "permanent"
	case ClassPoison:
		return "poison"
	}
	return "unknown"
}

// ClassifiedError carries the class that Permanent, Transient or RetryAfter gave to an error, and where.
// errors.Is and errors.As see through it.
type ClassifiedError struct {
	Class Class
	After time.Duration // at least this long until the next try; 0 leaves it to the curve
	Err   error
	stack [16]uintptr
}

func (e *ClassifiedError) Error() string     { return e.Err.Error() }
func (e *ClassifiedError) Unwrap() error     { return e.Err }
func (e *ClassifiedError) errorClass() Class { return e.Class }

// Stack returns where the class was given, one "function file:line" a line: evidence for the dead letter.
func (e *ClassifiedError) Stack() string {
	n := 0
	for n < len(e.stack) && e.stack[n] != 0 {
		n++
	}
	if n == 0 {
		return ""
	}
	var out []byte
	for frames := runtime.CallersFrames(e.stack[:n]); ; {
		frame, more := frames.Next()
		out = fmt.Appendf(out, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return string(out)
		}
	}
}

// Permanent says that no further try can make this job succeed, so it dies at once. Permanent(nil) is nil.
func Permanent(err error) error { return classified(ClassPermanent, 0, err) }

// Transient says that another try may succeed. It is also the default for an error that says nothing, so its use is
// to overrule an inner Permanent, or a classifier. Transient(nil) is nil.
func Transient(err error) error { return classified(ClassTransient, 0, err) }

// RetryAfter is Transient with a least wait, such as a server's Retry-After. The retry curve still counts the
// attempt, and where it says longer, it wins. RetryAfter(nil, d) is nil; a negative d counts as 0,
// one above 10 years as 10 years.
func RetryAfter(err error, d time.Duration) error {
	return classified(ClassTransient, min(max(d, 0), maxWait), err)
}

func classified(class Class, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	e := &ClassifiedError{Class: class, After: after, Err: err}
	runtime.Callers(3, e.stack[:])
	return e
}

// Classifier looks at an error that says nothing itself and says what it knows; ClassUnknown passes the question on.
// It must say permanent only where it is sure: a wrong permanent kills a job that a retry would have saved, a wrong
// transient costs a bounded number of tries.
type Classifier func(error) Class

// Classify returns err as it is when it carries a class already or no classifier knows it, and otherwise err wrapped
// in the class that the first classifier gave. A classifier that panics, or ends its goroutine, is
// passed over.
func Classify(err error, classifiers ...Classifier) error {
	if err == nil || ClassOf(err) != ClassUnknown {
		return err
	}
	for _, classify := range classifiers {
		if class := askSafely(classify, err); class == ClassPermanent || class == ClassTransient {
			return &ClassifiedError{Class: class, Err: err}
		}
	}
	return err
}

// askSafely asks in a goroutine of its own, so that neither a panic nor runtime.Goexit gets further.
func askSafely(classify Classifier, err error) Class {
	answer := make(chan Class, 1)
	go func() {
		class := ClassUnknown
		defer func() {
			if recover() != nil {
				class = ClassUnknown
			}
			answer <- class
		}()
		class = classify(err)
	}()
	return <-answer
}

// ClassOf returns the class that an error carries: the outermost one in its chain wins, and a joined error is
// permanent if any of its parts is.
func ClassOf(err error) Class { return look(err).class }

// AfterOf returns the longest wait that a RetryAfter in an error's chain asks for, 0 without one.
func AfterOf(err error) time.Duration { return look(err).after }

// classification is what a chain of errors says.
type classification struct {
	class  Class
	reason Reason        // with ClassPoison
	after  time.Duration // the longest wait asked for
}

func look(err error) classification {
	budget := chain.Limit
	return lookWithin(err, &budget)
}

func lookWithin(err error, budget *int) (found classification) {
	for err != nil && *budget > 0 {
		*budget--
		if found.class == ClassUnknown {
			if c, ok := err.(interface{ errorClass() Class }); ok {
				found.class = c.errorClass()
			}
			if p, ok := err.(*PoisonError); ok {
				found.reason = p.Reason
			}
		}
		if c, ok := err.(*ClassifiedError); ok {
			found.after = max(found.after, c.After)
		}
		parts, inner := chain.Unwrap(err)
		if parts == nil {
			err = inner
			continue
		}
		joined := classification{}
		for _, part := range parts {
			joined = joined.join(lookWithin(part, budget))
		}
		found.after = max(found.after, joined.after)
		if found.class == ClassUnknown {
			found.class, found.reason = joined.class, joined.reason
		}
		return found
	}
	return found
}

// join takes the graver class of two parts: poison, permanent, transient, unknown.
func (c classification) join(other classification) classification {
	out := c
	if other.class > c.class {
		out = other
	}
	out.after = max(c.after, other.after)
	return out
}

// ChainHas reports whether target is in the chain of err, as errors.Is does, but by identity alone and in bounded time:
// it calls no Is method, and a chain that leads back to itself ends.
func ChainHas(err, target error) bool {
	budget := chain.Limit
	return chainHas(err, target, &budget)
}

func chainHas(err, target error, budget *int) bool {
	for err != nil && *budget > 0 {
		*budget--
		if reflect.TypeOf(err) == reflect.TypeOf(target) && reflect.TypeOf(err).Comparable() && same(err, target) {
			return true
		}
		parts, inner := chain.Unwrap(err)
		for _, part := range parts {
			if chainHas(part, target, budget) {
				return true
			}
		}
		err = inner
	}
	return false
}

// same compares; values of a comparable type can still hold one that is not.
func same(a, b error) (equal bool) {
	defer func() {
		if recover() != nil {
			equal = false
		}
	}()
	return a == b
}
