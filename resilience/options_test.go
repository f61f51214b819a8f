package resilience_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/resilience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const second = time.Second

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		options resilience.Options
		want    []string // in the error; nil: accepted
	}{
		"zero":              {resilience.Options{}, nil},
		"small":             {resilience.Small(), nil},
		"mail":              {resilience.SMTP(), nil},
		"attempt = total":   {resilience.Options{Attempt: 30 * second, Total: 30 * second}, []string{"attempt timeout", "total timeout (30s)"}},
		"attempt > total":   {resilience.Options{Attempt: 30 * second, Total: 29 * second}, []string{`invalid attempt "30s"`, "total timeout (29s)"}},
		"total = client":    {resilience.Options{Total: 120 * second}, []string{"total timeout", "client timeout (2m0s)"}},
		"total > client":    {resilience.Options{Total: 121 * second}, []string{`invalid total "2m1s"`, "client timeout (2m0s)"}},
		"client = job":      {resilience.Options{Client: 4 * time.Minute}, []string{"client timeout", "job timeout (4m0s)"}},
		"client > job":      {resilience.Options{Job: time.Minute}, []string{`invalid client "2m0s"`, "job timeout (1m0s)"}},
		"negative attempt":  {resilience.Options{Attempt: -1}, []string{"attempt", "greater than 0"}},
		"negative total":    {resilience.Options{Total: -1}, []string{"total", "greater than 0"}},
		"negative client":   {resilience.Options{Client: -1}, []string{"client", "greater than 0"}},
		"negative job":      {resilience.Options{Job: -1}, []string{"job", "greater than 0"}},
		"a narrow ladder":   {resilience.Options{Attempt: 1, Total: 2, Client: 3, Job: 4}, nil},
		"a delay of 5 s":    {resilience.Options{Delay: 5 * second, Retries: 1}, nil},
		"a delay above 5 s": {resilience.Options{Delay: 5*second + 1, Retries: 1}, []string{"delay", "retry 1", "2 attempts x 6 tries of the job = 12 calls"}},
		"a delay that grows too far": {
			resilience.Options{Retries: 5, JobTries: 10},
			[]string{"delay", "retry 5 would be 8s, above 5s", "multiply", "6 attempts x 10 tries of the job = 60 calls", "retry curve"},
		},
		"a delay that just fits":     {resilience.Options{Retries: 4}, nil},
		"a long delay without retry": {resilience.Options{Retries: resilience.None, Delay: time.Hour}, nil},
		"very many retries":          {resilience.Options{Retries: math.MaxInt, Delay: 1}, []string{"delay", "multiply"}},
		"negative retries":           {resilience.Options{Retries: -2}, []string{"retries", "None"}},
		"a negative delay":           {resilience.Options{Delay: -1}, []string{"delay", "greater than 0"}},
		"negative tries":             {resilience.Options{JobTries: -1}, []string{"job tries"}},
		"a nil classifier":           {resilience.Options{Classifiers: []pawl.Classifier{nil}}, []string{"Classifiers[0]"}},
		"a ratio above 1":            {resilience.Options{Breaker: resilience.Breaker{FailureRatio: 1.1}}, []string{"ratio"}},
		"a negative ratio":           {resilience.Options{Breaker: resilience.Breaker{FailureRatio: -0.1}}, []string{"ratio"}},
		"no ratio at all":            {resilience.Options{Breaker: resilience.Breaker{FailureRatio: math.NaN()}}, []string{"ratio"}},
		"negative min calls":         {resilience.Options{Breaker: resilience.Breaker{MinCalls: -1}}, []string{"min calls"}},
		"a negative window":          {resilience.Options{Breaker: resilience.Breaker{Window: -1}}, []string{"window"}},
		"a negative opening":         {resilience.Options{Breaker: resilience.Breaker{Open: -1}}, []string{"breaker open"}},
		"a window of two attempts":   {resilience.Options{Breaker: resilience.Breaker{Window: 40 * second}}, nil},
		"a window below that":        {resilience.Options{Breaker: resilience.Breaker{Window: 39 * second}}, []string{"breaker window", "twice the attempt timeout (20s)"}},
		"a long attempt":             {resilience.Options{Attempt: 31 * second}, []string{"breaker window", "twice the attempt timeout (31s)"}},
	} {
		client, err := resilience.NewClient("cdn", row.options)
		if (err == nil) != (row.want == nil) || (client == nil) != (err != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil && !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v is no ErrInvalid", name, err)
		}
		for _, part := range append(row.want, `new downstream "cdn"`) {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not contain %q", name, err, part)
			}
		}
	}
}

func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", strings.Repeat("x", 129), "a\nb", "a\xff"} {
		if _, err := resilience.New(name, resilience.Options{}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	d, err := resilience.New("cdn", resilience.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := d.Options()
	if o.Attempt != 20*second || o.Total != 90*second || o.Client != 120*second || o.Job != 240*second {
		t.Errorf("ladder %v %v %v %v", o.Attempt, o.Total, o.Client, o.Job)
	}
	if o.Retries != 3 || o.Delay != second/2 || o.JobTries != 6 || o.RetryAll {
		t.Errorf("retries %d %v %d %v", o.Retries, o.Delay, o.JobTries, o.RetryAll)
	}
	if o.Breaker != (resilience.Breaker{FailureRatio: 0.1, MinCalls: 100, Window: 60 * second, Open: 5 * second}) {
		t.Errorf("breaker %+v", o.Breaker)
	}
	if d.Name() != "cdn" || d.Client().Timeout != 120*second || resilience.Of(d.Client()) != d {
		t.Error("the client is not the downstream's")
	}
	small, mail := resilience.Small(), resilience.SMTP()
	if small.Attempt != 15*second || small.Total != 50*second || small.Client != 60*second {
		t.Errorf("small %+v", small)
	}
	if mail.Attempt != 30*second || mail.Retries != resilience.None {
		t.Errorf("mail %+v", mail)
	}
}
