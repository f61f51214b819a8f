package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// profile is what is posted to the downstream.
type profile struct {
	SignUp string `json:"sign_up"`
	Email  string `json:"email"`
	Name   string `json:"name"`
	Role   string `json:"role"`
}

const (
	profilesPath = "/profiles"
	alertsPath   = "/alerts"
	keyHeader    = "Idempotency-Key"
	maxPost      = 1 << 20 // bytes
)

// downstream is the outside service that profiles are posted to, and the chat service that alerts are posted to: a
// real HTTP server on loopback that fails by plan.
type downstream struct {
	plan   *faultPlan
	alerts *box
	pace   time.Duration

	server *http.Server
	url    string
	ended  chan error

	mu   sync.Mutex
	kept *os.File // one line for each profile that was taken
}

// takenProfile is a line of the downstream's own record.
type takenProfile struct {
	Key string `json:"key"`
	profile
}

func startDownstream(f folder, alerts *box, plan *faultPlan, pace time.Duration) (*downstream, error) {
	kept, err := os.OpenFile(f.profiles(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start downstream: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start downstream: %w", err), kept.Close())
	}
	d := &downstream{plan: plan, alerts: alerts, pace: pace, kept: kept, url: "http://" + listener.Addr().String(), ended: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+profilesPath, d.takeProfile)
	mux.HandleFunc("POST "+alertsPath, d.takeAlert)
	d.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { d.ended <- d.server.Serve(listener) }()
	return d, nil
}

// close ends it. Nobody calls any more by then; what hangs is cut off.
func (d *downstream) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := d.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = d.server.Close()
	}
	if served := <-d.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(err, d.kept.Close())
}

func (d *downstream) takeProfile(w http.ResponseWriter, r *http.Request) {
	var p profile
	if err := json.NewDecoder(io.LimitReader(r.Body, maxPost)).Decode(&p); err != nil || p.SignUp == "" {
		http.Error(w, "not a profile", http.StatusBadRequest)
		return
	}
	if !pause(r.Context(), d.pace) {
		return
	}
	met := d.plan.meet(p.SignUp, time.Now())
	if met.hang {
		<-r.Context().Done()
		return
	}
	if met.status == http.StatusCreated {
		if err := d.keep(takenProfile{r.Header.Get(keyHeader), p}); err != nil {
			met = verdict{status: http.StatusInternalServerError, problem: "cannot keep the profile"}
		}
	}
	if met.retryAfter != "" {
		w.Header().Set("Retry-After", met.retryAfter)
	}
	w.WriteHeader(met.status)
	_, _ = io.WriteString(w, met.problem)
}

func (d *downstream) keep(p takenProfile) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = d.kept.Write(append(line, '\n'))
	return err
}

func (d *downstream) takeAlert(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPost))
	if err == nil {
		err = d.alerts.keep(r.Header.Get(keyHeader), ".json", body)
	}
	if err != nil {
		http.Error(w, "cannot keep the alert", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// takenProfiles are the idempotency keys, which are job ids, that the downstream has taken a profile under.
func takenProfiles(f folder) (map[string]bool, error) {
	lines, err := readLines(f.profiles())
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, line := range lines {
		var p takenProfile
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.profiles(), err)
		}
		keys[p.Key] = true
	}
	return keys, nil
}

// pause waits, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
