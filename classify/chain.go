package classify

import (
	"context"
	"sync"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/chain"
)

// Rule looks at one error, not at what it wraps, and says what it knows; ClassUnknown passes the question on. A rule
// that panics has said nothing.
type Rule func(err error) pawl.Class

// Default is the chain of this package's rules, asked after your own.
func Default(own ...Rule) pawl.Classifier {
	return Chain(append(append([]Rule{}, own...), Context, HTTP, Network, SMTP, Postgres, SQLite, SQLServer)...)
}

// Chain asks the rules, in order, about every error of a chain. As everywhere in Pawl the outermost error that a rule
// knows wins, and joined errors are permanent if one of them is. The walk is bounded: errors that wrap each
// other in a circle come to an end.
func Chain(rules ...Rule) pawl.Classifier {
	return func(err error) pawl.Class {
		w := walk{rules: rules, budget: chain.Limit}
		w.cancelled = sync.OnceValue(func() bool { return pawl.ChainHas(err, context.Canceled) })
		return w.class(err)
	}
}

// On is a rule for errors of one type, for example of a driver:
//
//	classify.On(func(e *mysql.MySQLError) pawl.Class { return classify.MySQLNumber(e.Number) })
func On[E error](class func(E) pawl.Class) Rule {
	return func(err error) pawl.Class {
		if e, ok := err.(E); ok {
			return class(e)
		}
		return pawl.ClassUnknown
	}
}

// Context knows that context.DeadlineExceeded is transient. Of a context that was cancelled it knows nothing: the host
// does.
func Context(err error) pawl.Class {
	if err == context.DeadlineExceeded {
		return pawl.ClassTransient
	}
	return pawl.ClassUnknown
}

type walk struct {
	rules     []Rule
	budget    int
	cancelled func() bool // the chain tells of a context that was cancelled
}

func (w *walk) class(err error) pawl.Class {
	for err != nil && w.budget > 0 {
		w.budget--
		if class := w.ask(err); class != pawl.ClassUnknown {
			return class
		}
		parts, inner := chain.Unwrap(err)
		if parts != nil {
			return w.joined(parts)
		}
		err = inner
	}
	return pawl.ClassUnknown
}

// joined takes the graver class of the parts.
func (w *walk) joined(parts []error) pawl.Class {
	class := pawl.ClassUnknown
	for _, part := range parts {
		class = max(class, w.class(part))
	}
	return class
}

// ask asks the rules about one error.
func (w *walk) ask(err error) pawl.Class {
	for _, rule := range w.rules {
		class := askSafely(rule, err)
		if class != pawl.ClassTransient && class != pawl.ClassPermanent {
			continue
		}
		if class == pawl.ClassTransient && isQueryCancelled(err) && w.cancelled() {
			return pawl.ClassUnknown // the server says that a query was cancelled: by us
		}
		return class
	}
	return pawl.ClassUnknown
}

func askSafely(rule Rule, err error) (class pawl.Class) {
	defer func() {
		if recover() != nil {
			class = pawl.ClassUnknown
		}
	}()
	return rule(err)
}
