package pawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
)

// Envelope is what a store keeps of a job: who it is, its args as the exact bytes that were given, and its policy as
// it was resolved when it was enqueued. The time of the enqueue is not in it: it is the store's to say, so that hosts
// with skewed clocks agree.
type Envelope struct {
	ID            ID
	Kind          string
	Args          []byte // JSON
	Policy        Policy // every field resolved
	RetryUntil    time.Time
	CorrelationID string
	TraceParent   string // W3C trace context
	TraceState    string
	Tags          []string
	Unique        Unique
	OrderingKey   string
	LimitKey      string
	Limited       bool // its kind stated a limit when it was enqueued
	Origin        Origin
	Batch         ID       // of which it is a member
	After         BatchEnd // of the batch that it follows
	Signature     []byte   // room for a signing key ring; empty when signing is off
	// Erased is when the args were erased (Eraser); zero when they are there. Such an envelope has no args and no keys, and
	// cannot be enqueued.
	Erased time.Time
}

// Erase returns the envelope without what may tell of a person: its args, its keys, and the signature over them.
func (e Envelope) Erase(at time.Time) Envelope {
	e.Args, e.Unique, e.OrderingKey, e.LimitKey, e.Signature = nil, Unique{}, "", "", nil
	e.Erased = at.UTC().Truncate(time.Millisecond)
	return e
}

// Origin says what enqueued a job when it was not a plain call.
type Origin struct {
	Source OriginSource
	Ref    string // the letter's, message's or schedule's id
}

// OriginSource names the kinds of origin.
type OriginSource string

const (
	OriginCall     OriginSource = ""         // a plain enqueue
	OriginRedrive  OriginSource = "redrive"  // Ref is a dead letter
	OriginOutbox   OriginSource = "outbox"   // Ref is an outbox message
	OriginSchedule OriginSource = "schedule" // Ref is a schedule and its tick
	OriginBatch    OriginSource = "batch"    // Ref is a batch, all members of which have ended
)

// Deadline is the time after which the job may no longer be started, given when it was enqueued; zero when there is
// none.
func (e Envelope) Deadline(enqueuedAt time.Time) time.Time {
	if !e.RetryUntil.IsZero() || e.Policy.RetryFor == 0 {
		return e.RetryUntil
	}
	return enqueuedAt.Add(e.Policy.RetryFor)
}

// Check reports the first rule of a job that the envelope breaks, as a *FieldError: what an enqueue would refuse.
func (e Envelope) Check() error { return e.check() }

// The encoding is binary and versioned:
//
//	"PWL" 0x01 | fields | checksum
//
// A field is a number and a length, both as uvarint (encoding/binary), then that many bytes. Absent fields are zero;
// unknown numbers are skipped, so a host of the previous release reads what the next one adds. The checksum is
// CRC-32C (RFC 3720, appendix B.4) over all before it, little endian: one flipped byte is always noticed.
const (
	envelopeMagic = "PWL\x01"

	fieldID            = 1
	fieldKind          = 2
	fieldArgs          = 3
	fieldQueue         = 4
	fieldMaxTries      = 5
	fieldBackoff       = 6 // milliseconds, one uvarint each
	fieldJitter        = 7 // IEEE 754 bits, little endian
	fieldTimeout       = 8 // milliseconds
	fieldRetryFor      = 9 // milliseconds
	fieldRedrive       = 10
	fieldStartsOff     = 11
	fieldRetryUntil    = 12 // Unix milliseconds
	fieldCorrelationID = 13 // absent: the job's id
	fieldTraceParent   = 14
	fieldTraceState    = 15
	fieldTag           = 16 // repeated
	fieldUniqueKey     = 17
	fieldUniqueScope   = 18
	fieldUniquePeriod  = 19 // milliseconds
	fieldOrderingKey   = 20
	fieldOriginSource  = 21
	fieldOriginRef     = 22
	fieldSignature     = 23
	fieldErased        = 24 // Unix milliseconds
	fieldLimitKey      = 25
	fieldLimited       = 26
	fieldBatch         = 27
	fieldAfter         = 28 // a batch's id, then how many were done, dead, removed, one uvarint each
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode writes the envelope as it is stored.
func (e Envelope) Encode() []byte {
	w := make(fieldWriter, 0, 128+len(e.Args)+len(e.Kind))
	w = append(w, envelopeMagic...)
	w.bytes(fieldID, e.ID[:])
	w.text(fieldKind, e.Kind)
	w.bytes(fieldArgs, e.Args)
	w.text(fieldQueue, e.Policy.Queue)
	w.number(fieldMaxTries, uint64(e.Policy.MaxTries))
	var delays []byte
	for _, d := range e.Policy.Backoff {
		delays = binary.AppendUvarint(delays, millis(d))
	}
	w.bytes(fieldBackoff, delays)
	if e.Policy.Jitter != 0 {
		w.bytes(fieldJitter, binary.LittleEndian.AppendUint64(nil, math.Float64bits(e.Policy.Jitter)))
	}
	w.number(fieldTimeout, millis(e.Policy.Timeout))
	w.number(fieldRetryFor, millis(e.Policy.RetryFor))
	if e.Policy.Redrive > RedriveAny {
		w.number(fieldRedrive, uint64(e.Policy.Redrive))
	}
	if e.Policy.StartsOff {
		w.number(fieldStartsOff, 1)
	}
	if !e.RetryUntil.IsZero() {
		w.number(fieldRetryUntil, uint64(e.RetryUntil.UnixMilli()))
	}
	if e.CorrelationID != e.ID.String() {
		w.text(fieldCorrelationID, e.CorrelationID)
	}
	w.text(fieldTraceParent, e.TraceParent)
	w.text(fieldTraceState, e.TraceState)
	for _, tag := range e.Tags {
		w.text(fieldTag, tag)
	}
	w.text(fieldUniqueKey, e.Unique.Key)
	w.number(fieldUniqueScope, uint64(e.Unique.Scope))
	w.number(fieldUniquePeriod, millis(e.Unique.Period))
	w.text(fieldOrderingKey, e.OrderingKey)
	w.text(fieldOriginSource, string(e.Origin.Source))
	w.text(fieldOriginRef, e.Origin.Ref)
	w.bytes(fieldSignature, e.Signature)
	if !e.Erased.IsZero() {
		w.number(fieldErased, uint64(e.Erased.UnixMilli()))
	}
	w.text(fieldLimitKey, e.LimitKey)
	if e.Limited {
		w.number(fieldLimited, 1)
	}
	if !e.Batch.IsZero() {
		w.bytes(fieldBatch, e.Batch[:])
	}
	if !e.After.Batch.IsZero() {
		w.bytes(fieldAfter, e.After.encode())
	}
	return binary.LittleEndian.AppendUint32(w, crc32.Checksum(w, castagnoli))
}

// DecodeEnvelope reads what Encode wrote. Its error is a *PoisonError with ReasonUndecodable.
func DecodeEnvelope(stored []byte) (Envelope, error) {
	var e Envelope
	if err := e.decode(stored); err != nil {
		return Envelope{}, &PoisonError{Reason: ReasonUndecodable, Err: fmt.Errorf("decode envelope: %w", err)}
	}
	return e, nil
}

var errTruncated = errors.New("truncated")

func (e *Envelope) decode(stored []byte) error {
	if len(stored) < len(envelopeMagic)+4 || string(stored[:3]) != envelopeMagic[:3] {
		return errors.New("not an envelope")
	}
	if stored[3] != envelopeMagic[3] {
		return fmt.Errorf("format version %d is not known to this program", stored[3])
	}
	body, sum := stored[:len(stored)-4], binary.LittleEndian.Uint32(stored[len(stored)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("checksum does not match: the stored bytes were changed")
	}
	for rest := body[len(envelopeMagic):]; len(rest) > 0; {
		field, n := binary.Uvarint(rest)
		if n <= 0 {
			return errTruncated
		}
		size, m := binary.Uvarint(rest[n:])
		if m <= 0 || size > uint64(len(rest)-n-m) {
			return errTruncated
		}
		value := rest[n+m : n+m+int(size)]
		rest = rest[n+m+int(size):]
		if err := e.set(field, value); err != nil {
			return fmt.Errorf("field %d: %w", field, err)
		}
	}
	if e.ID.IsZero() || e.Kind == "" || e.Policy.Queue == "" || e.Policy.MaxTries < 1 {
		return errors.New("id, kind, queue or max tries missing")
	}
	if e.Policy.Redrive == RedriveInherit {
		e.Policy.Redrive = RedriveAny
	}
	if e.CorrelationID == "" {
		e.CorrelationID = e.ID.String()
	}
	return nil
}

func (e *Envelope) set(field uint64, value []byte) error {
	switch field {
	case fieldID:
		if len(value) != len(e.ID) {
			return errTruncated
		}
		copy(e.ID[:], value)
	case fieldKind:
		e.Kind = string(value)
	case fieldArgs:
		e.Args = value
	case fieldQueue:
		e.Policy.Queue = string(value)
	case fieldCorrelationID:
		e.CorrelationID = string(value)
	case fieldTraceParent:
		e.TraceParent = string(value)
	case fieldTraceState:
		e.TraceState = string(value)
	case fieldTag:
		e.Tags = append(e.Tags, string(value))
	case fieldUniqueKey:
		e.Unique.Key = string(value)
	case fieldOrderingKey:
		e.OrderingKey = string(value)
	case fieldLimitKey:
		e.LimitKey = string(value)
	case fieldOriginSource:
		e.Origin.Source = OriginSource(value)
	case fieldOriginRef:
		e.Origin.Ref = string(value)
	case fieldSignature:
		e.Signature = value
	case fieldJitter:
		if len(value) != 8 {
			return errTruncated
		}
		e.Policy.Jitter = math.Float64frombits(binary.LittleEndian.Uint64(value))
	case fieldBackoff:
		return e.setBackoff(value)
	case fieldBatch:
		if len(value) != len(e.Batch) {
			return errTruncated
		}
		copy(e.Batch[:], value)
	case fieldAfter:
		return e.After.decode(value)
	default:
		return e.setNumber(field, value)
	}
	return nil
}

func (b BatchEnd) encode() []byte {
	out := append([]byte{}, b.Batch[:]...)
	for _, n := range []int{b.Done, b.Dead, b.Removed} {
		out = binary.AppendUvarint(out, uint64(n))
	}
	return out
}

func (b *BatchEnd) decode(value []byte) error {
	if len(value) < len(b.Batch) {
		return errTruncated
	}
	value = value[copy(b.Batch[:], value):]
	for _, count := range []*int{&b.Done, &b.Dead, &b.Removed} {
		number, n := binary.Uvarint(value)
		if n <= 0 {
			return errTruncated
		}
		*count, value = int(min(number, math.MaxInt32)), value[n:]
	}
	return nil
}

func (e *Envelope) setBackoff(value []byte) error {
	delays := 0
	for _, b := range value {
		if b < 0x80 { // the last byte of a uvarint
			delays++
		}
	}
	e.Policy.Backoff = slices.Grow(e.Policy.Backoff, delays)
	for len(value) > 0 {
		ms, n := binary.Uvarint(value)
		if n <= 0 {
			return errTruncated
		}
		e.Policy.Backoff = append(e.Policy.Backoff, fromMillis(ms))
		value = value[n:]
	}
	return nil
}

func (e *Envelope) setNumber(field uint64, value []byte) error {
	if field > fieldLimited {
		return nil // of a later release
	}
	number, n := binary.Uvarint(value)
	if n <= 0 {
		return errTruncated
	}
	switch field {
	case fieldMaxTries:
		e.Policy.MaxTries = int(min(number, math.MaxInt32))
	case fieldTimeout:
		e.Policy.Timeout = fromMillis(number)
	case fieldRetryFor:
		e.Policy.RetryFor = fromMillis(number)
	case fieldRedrive:
		e.Policy.Redrive = RedriveRule(min(number, uint64(RedriveNever)))
	case fieldStartsOff:
		e.Policy.StartsOff = number != 0
	case fieldRetryUntil:
		e.RetryUntil = time.UnixMilli(int64(min(number, maxMillis))).UTC()
	case fieldErased:
		e.Erased = time.UnixMilli(int64(min(number, maxMillis))).UTC()
	case fieldLimited:
		e.Limited = number != 0
	case fieldUniqueScope:
		e.Unique.Scope = UniqueScope(min(number, uint64(UniqueForPeriod)))
	case fieldUniquePeriod:
		e.Unique.Period = fromMillis(number)
	}
	return nil
}

// maxMillis keeps a decoded time or duration within what time.Duration and time.Time can hold.
const maxMillis = math.MaxInt64 / uint64(time.Millisecond)

// millis rounds a positive duration up to whole milliseconds: a wait is never shortened by its storage.
func millis(d time.Duration) uint64 {
	ms := uint64(d / time.Millisecond)
	if d%time.Millisecond != 0 {
		ms++
	}
	return ms
}

func fromMillis(ms uint64) time.Duration { return time.Duration(min(ms, maxMillis)) * time.Millisecond }

type fieldWriter []byte

func (w *fieldWriter) bytes(field uint64, value []byte) {
	if len(value) == 0 {
		return
	}
	*w = binary.AppendUvarint(*w, field)
	*w = binary.AppendUvarint(*w, uint64(len(value)))
	*w = append(*w, value...)
}

func (w *fieldWriter) text(field uint64, value string) {
	if value == "" {
		return
	}
	*w = binary.AppendUvarint(*w, field)
	*w = binary.AppendUvarint(*w, uint64(len(value)))
	*w = append(*w, value...)
}

func (w *fieldWriter) number(field, value uint64) {
	if value == 0 {
		return
	}
	var buf [binary.MaxVarintLen64]byte
	w.bytes(field, buf[:binary.PutUvarint(buf[:], value)])
}
