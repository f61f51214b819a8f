package pawl

import (
	"context"
	"fmt"
)

// Kind is a typed, named and versioned sort of job: the value that the code that enqueues and the code that handles
// share, so that their args cannot drift apart. Make one with NewKind and keep it in a package variable.
//
// The name is what is stored. It never changes its meaning: when the args change incompatibly, make a new version
// (email.welcome.v2) that Replaces the old one.
type Kind[T any] struct {
	name   string
	policy Policy
	lifts  []lift[T]
	err    error
}

// lift reads args of an older kind and turns them into T.
type lift[T any] struct {
	name string
	read func(args []byte) (T, error)
}

// Lift says which older kind a kind replaces; see Replaces.
type Lift[T any] struct {
	lifts []lift[T]
	err   error
}

// NewKind names a kind and states its policy; zero fields of the policy inherit. A name or policy that breaks a rule
// is reported by every Enqueue of the kind and by host.New for its handler.
func NewKind[T any](name string, policy Policy, replaces ...Lift[T]) Kind[T] {
	k := Kind[T]{name: name, policy: policy, err: CheckName("kind", name)}
	if k.err == nil {
		if err := policy.check(); err != nil {
			k.err = fmt.Errorf("kind %s: %w", name, err)
		}
	}
	for _, l := range replaces {
		k.lifts = append(k.lifts, l.lifts...)
		if k.err == nil {
			k.err = l.err
		}
	}
	return k
}

// Replaces lets the handler of a new kind run what was enqueued, or died, under the old one: raise turns the old args
// into the new ones. What the old kind replaced in its turn is raised through both.
func Replaces[Old, New any](old Kind[Old], raise func(Old) (New, error)) Lift[New] {
	out := Lift[New]{err: old.err}
	add := func(name string, read func([]byte) (Old, error)) {
		out.lifts = append(out.lifts, lift[New]{name: name, read: func(args []byte) (New, error) {
			before, err := read(args)
			if err != nil {
				var none New
				return none, err
			}
			return raise(before)
		}})
	}
	add(old.name, old.read)
	for _, l := range old.lifts {
		add(l.name, l.read)
	}
	return out
}

// Name is the kind's name as it is stored.
func (k Kind[T]) Name() string { return k.name }

// Policy is what the kind states itself.
func (k Kind[T]) Policy() Policy { return k.policy }

func (k Kind[T]) read(args []byte) (T, error) {
	var v T
	if err := decodeArgs(args, &v); err != nil {
		return v, fmt.Errorf("read args of %s: %w", k.name, err)
	}
	return v, nil
}

// New makes a job without storing it, for an Enqueuer that is handed several kinds in one call. The connection is the
// one that it will go to.
func (k Kind[T]) New(ctx context.Context, connection Connection, args T, options ...Option) (NewJob, error) {
	if k.err != nil {
		return NewJob{}, k.err
	}
	if k.name == "" {
		return NewJob{}, &FieldError{"kind", "", "must be made with NewKind"}
	}
	encoded, err := encodeArgs(args)
	if err != nil {
		return NewJob{}, fmt.Errorf("enqueue %s: %w", k.name, err)
	}
	d := dispatch{envelope: Envelope{Kind: k.name, Args: encoded}}
	for _, option := range options {
		option(&d)
	}
	job, err := d.resolve(ctx, k.policy, connection.Policy)
	if err != nil {
		return NewJob{}, fmt.Errorf("enqueue %s: %w", k.name, err)
	}
	return job, nil
}

var errNoEnqueuer error = &FieldError{Field: "enqueuer", Value: nil, Rule: "must be a store, a transaction or an inline connection"}

// NewMany is New for one job for each of the args, with the same options.
// WithID and a unique key make sense for one job only and are refused.
func (k Kind[T]) NewMany(ctx context.Context, connection Connection, args []T, options ...Option) ([]NewJob, error) {
	jobs := make([]NewJob, len(args))
	for i := range args {
		job, err := k.New(ctx, connection, args[i], options...)
		if err != nil {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(args), err)
		}
		if i > 0 && (job.ID == jobs[0].ID || job.Unique.Key != "") {
			return nil, fmt.Errorf("enqueue %s: %w", k.name,
				&FieldError{"options", "WithID, Unique", "must not be given for several jobs at once"})
		}
		jobs[i] = job
	}
	return jobs, nil
}

// Enqueue stores one job and returns when it is durable. With a store's Tx as the Enqueuer the job is part of that
// transaction: a rollback means that it never was.
//
// When the error is one of the store's, and not of the input, the job may or may not have been stored. The result
// names its id all the same: repeating the call with WithID(id) stores it at most once.
func (k Kind[T]) Enqueue(ctx context.Context, to Enqueuer, args T, options ...Option) (Enqueued, error) {
	if to == nil {
		return Enqueued{}, errNoEnqueuer
	}
	job, err := k.New(ctx, to.Connection(), args, options...)
	if err != nil {
		return Enqueued{}, err
	}
	results, err := to.Enqueue(ctx, []NewJob{job})
	if err != nil {
		return Enqueued{ID: job.ID}, fmt.Errorf("enqueue %s %s: %w", k.name, job.ID, err)
	}
	return results[0], nil
}

// EnqueueMany stores one job for each of the args, all or none, with the same options. Result i belongs to args i.
// WithID and a unique key make sense for one job only and are refused.
func (k Kind[T]) EnqueueMany(ctx context.Context, to Enqueuer, args []T, options ...Option) ([]Enqueued, error) {
	if to == nil {
		return nil, errNoEnqueuer
	}
	jobs, err := k.NewMany(ctx, to.Connection(), args, options...)
	if err != nil {
		return nil, err
	}
	results, err := to.Enqueue(ctx, jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue %d jobs of %s: %w", len(jobs), k.name, err)
	}
	return results, nil
}
