package storetest

import (
	"bytes"
	"strings"

	"github.com/pawljobs/pawl"
)

func payloadPromises() []promise {
	return []promise{
		{name: "args come back byte for byte from every place", check: argsKept},
		{name: "args of 1 MiB come back", check: bigArgs},
		{name: "an envelope that does not decode comes back as it is", check: rawEnvelope},
		{name: "names of kinds and queues come back as they are", check: namesKept},
	}
}

func argsKept(f *fixture) {
	session := f.host("a")
	for name, args := range map[string]string{
		"integers above 2^53":     `{"id":3889108265204450030,"min":-9223372036854775808}`,
		"numbers as written":      `[1.0,1e400,-0,0.10,1E+2]`,
		"NUL and other escapes":   `{"s":"\u0000\u0001\/\u00e9","t":"\ud83d\ude00"}`,
		"lone surrogate escape":   `{"s":"\ud800"}`,
		"key order":               `{"z":1,"a":2,"m":3}`,
		"duplicate keys":          `{"a":1,"a":2}`,
		"white space":             " {\n\t\"a\" : [ ] } ",
		"empty object":            `{}`,
		"null":                    `null`,
		"quotes and placeholders": `"'; drop table pawl_job; -- $1 ? :x %s \\"`,
		"any valid UTF-8":         `"é e` + "\u0301 \u2028 \U0001F600 \u202E \uFFFF" + `"`,
		"deepest nesting":         strings.Repeat("[", 64) + strings.Repeat("]", 64),
	} {
		f.everywhere(session, name, args)
	}
}

func bigArgs(f *fixture) {
	args := `"` + strings.Repeat("x", 1<<20-2) + `"`
	f.everywhere(f.host("a"), "1 MiB", args)
}

// everywhere follows an envelope through the claim, the job's view, its letter, and a redrive.
func (f *fixture) everywhere(session pawl.SessionID, name, args string) {
	f.Helper()
	job := f.jobOf(workKind, pawl.Policy{}, args)
	f.enqueue(job)
	claimed := f.claimOne(session)
	f.same(name+": claimed", claimed.Envelope, job.Envelope)
	f.same(name+": job's view", f.view(job.ID).Envelope, job.Envelope)

	settlement := f.death(claimed)
	settlement.Letter.Envelope = nil // the store has it
	f.settle(session, settlement)
	letter := f.letter(settlement.Letter.ID)
	f.same(name+": letter", letter.Envelope, job.Envelope)

	envelope, err := pawl.DecodeEnvelope(letter.Envelope)
	f.ok(name+": decode", err)
	f.same(name+": args", envelope.Args, []byte(args))
	envelope.ID = pawl.NewID()
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, Push: push(envelope)})
	again := f.claimOne(session)
	f.same(name+": redriven", again.Envelope, envelope.Encode())
	f.settle(session, end(again, pawl.Done{}))
}

// same compares bytes without printing a megabyte of them.
func (f *fixture) same(what string, got, want []byte) {
	f.Helper()
	if !bytes.Equal(got, want) {
		f.Fatalf("%s: %d bytes %.200q, want %d bytes %.200q", what, len(got), got, len(want), want)
	}
}

func rawEnvelope(f *fixture) {
	session := f.host("a")
	every := make([]byte, 0, 256)
	for b := range 256 {
		every = append(every, byte(b))
	}
	flipped := f.job()
	flipped.Envelope[len(flipped.Envelope)/2] ^= 1
	for name, raw := range map[string][]byte{"every byte": every, "one flipped byte": flipped.Envelope, "text": []byte("{}")} {
		job := f.job()
		job.Envelope = raw
		f.enqueue(job)
		claimed := f.claimOne(session)
		f.same(name+": claimed", claimed.Envelope, raw)
		f.equal(name+": kind beside it", claimed.Kind, workKind)
		f.same(name+": letter", f.die(session, claimed).Envelope, raw)
	}
}

func namesKept(f *fixture) {
	names := []string{
		`it's`, `"quoted"`, `back\slash`, `100%`, `under_score`, `UPPER`, `upper`, `ünïcode`, `日本`, `$1`, `?`, strings.Repeat("n", 128),
	}
	session := f.host("a")
	for _, name := range names {
		f.enqueue(f.jobOf(name, pawl.Policy{Queue: name}, `1`))
	}
	for _, name := range names {
		jobs := f.claim(session, 5, func(r *pawl.ClaimRequest) { r.Queues, r.Kinds = []string{name}, []string{name} })
		f.equal("jobs of "+name, len(jobs), 1)
		f.equal("kind", jobs[0].Kind, name)
		f.equal("queue", jobs[0].Queue, name)
		letter := f.die(session, jobs[0])
		f.equal("letters of kind "+name, letterIDs(f.letters(pawl.LetterFilter{Kind: name})), []pawl.ID{letter.ID})
		f.equal("letters of queue "+name, letterIDs(f.letters(pawl.LetterFilter{Queue: name})), []pawl.ID{letter.ID})
	}
}
