package classify_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
)

// serve answers until the test ends; the client is closed with it.
func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *http.Client) {
	t.Helper()
	server := httptest.NewServer(handler)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
	})
	return server, client
}

func get(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return classify.Response(response)
}

func TestResponse(t *testing.T) {
	t.Parallel()
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status := 0
		fmt.Sscan(r.URL.Query().Get("status"), &status)
		if after := r.URL.Query().Get("after"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		if r.URL.Query().Has("in") {
			w.Header().Set("Retry-After", time.Now().Add(time.Minute+time.Second).UTC().Format(http.TimeFormat))
		}
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			io.WriteString(w, "said\n the  server")
		}
	})
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	const text = " said the server"
	for query, row := range map[string]struct {
		class pawl.Class
		after time.Duration
		text  string // of the error, after the URL
	}{
		"status=302":                        {unknown, 0, "status 302 Found:" + text},
		"status=304":                        {unknown, 0, "status 304 Not Modified"},
		"status=404":                        {permanent, 0, "status 404 Not Found:" + text},
		"status=404&after=60":               {permanent, 0, "status 404 Not Found:" + text},
		"status=429":                        {transient, 0, "status 429 Too Many Requests:" + text},
		"status=429&after=7":                {transient, 7 * time.Second, "status 429 Too Many Requests:" + text},
		"status=503&after=120":              {transient, 2 * time.Minute, "status 503 Service Unavailable:" + text},
		"status=503&in":                     {transient, time.Minute, "status 503 Service Unavailable:" + text},
		"status=503&after=soon":             {transient, 0, "status 503 Service Unavailable:" + text},
		"status=503&after=9999999999999999": {transient, classify.MaxRetryAfter, "status 503 Service Unavailable:" + text},
		"status=501":                        {permanent, 0, "status 501 Not Implemented:" + text},
		"status=599":                        {transient, 0, "status 599:" + text},
	} {
		err := get(t, client, server.URL+"/users/7?"+query)
		if got := pawl.ClassOf(err); got != row.class {
			t.Errorf("%s: %v, want %v", query, got, row.class)
		}
		var classified *pawl.ClassifiedError
		if errors.As(err, &classified) && (classified.After < row.after || classified.After > row.after+2*time.Second) {
			t.Errorf("%s: after %v, want %v", query, classified.After, row.after)
		}
		if want := "GET " + server.URL + "/users/7: " + row.text; err.Error() != want {
			t.Errorf("%s: %q, want %q", query, err, want)
		}
		var status *classify.StatusError
		if !errors.As(err, &status) || fmt.Sprintf("status=%d", status.HTTPStatusCode()) != strings.Split(query, "&")[0] {
			t.Errorf("%s: no StatusError with that status: %v", query, err)
		}
	}
}

func TestResponseOfASuccessIsLeftAlone(t *testing.T) {
	t.Parallel()
	server, client := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "whole") })
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := classify.Response(response); err != nil {
		t.Error(err)
	}
	if body, err := io.ReadAll(response.Body); string(body) != "whole" || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if err := classify.Response(nil); err == nil || pawl.ClassOf(err) != unknown {
		t.Errorf("no response: %v", err)
	}
	if err := classify.Response(&http.Response{StatusCode: 500}); err == nil || err.Error() != "status 500 Internal Server Error" {
		t.Errorf("a bare response: %v", err)
	}
}

// Bodies up to the limit do not cost a connection.
func TestResponseKeepsTheConnection(t *testing.T) {
	t.Parallel()
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(503)
		size := 0
		fmt.Sscan(r.URL.Query().Get("size"), &size)
		w.Write(bytes.Repeat([]byte("x"), size))
	})
	dialled := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			dialled++
		}
	}})
	for _, row := range []struct{ size, dialled int }{{0, 1}, {1, 1}, {4096, 1}, {5000, 1}, {60_000, 1}, {200_000, 1}, {1, 2}} {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?size=%d", server.URL, row.size), nil)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := classify.Response(response); pawl.ClassOf(err) != transient || utf8.RuneCountInString(err.Error()) > 400 {
			t.Errorf("size %d: %v", row.size, err)
		}
		if dialled != row.dialled {
			t.Errorf("size %d: %d connections, want %d", row.size, dialled, row.dialled)
		}
	}
}

// slowBody gives one byte a second, for ever, until it is closed.
type slowBody struct{ closed chan struct{} }

func (b slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = 'x'
		return 1, nil
	case <-b.closed:
		return 0, errors.New("closed")
	}
}

func (b slowBody) Close() error { close(b.closed); return nil }

func TestResponseDoesNotWaitForASlowBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := classify.Response(&http.Response{StatusCode: 500, Body: slowBody{make(chan struct{})}})
		if took := time.Since(begun); took != 2*time.Second || pawl.ClassOf(err) != transient {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestExcerptHidesSecrets(t *testing.T) {
	t.Parallel()
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
	bodies := map[string]string{
		"echo of the header":   `you sent Bearer abc.def-ghi`,
		"its bare value":       `token abc.def-ghi is not known`,
		"a cookie's value":     `session c00kie-value expired`,
		"a header of a key":    `key k3y-of-the-call has no credit`,
		"the query":            `GET /x?api_key=qu3ry-secret&page=2`,
		"a query value":        `qu3ry-secret is not a key`,
		"JSON":                 `{"user":"alice","password":"hunter2","n":1}`,
		"JSON, escaped":        `{"client_secret": "hunt\"er2 more", "n": 1}`,
		"JSON that is cut":     `{"access_token":"hunter2 and mo`,
		"a form":               `user=alice&passwd=hunter2&x=1`,
		"a header in a dump":   `Authorization: Basic aHVudGVyMjpodW50ZXIy`,
		"a JWT":                `jwt ` + jwt + ` rejected`,
		"a key of an issuer":   `invalid key sk_live_hunter2hunter2`,
		"a private key":        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
		"a cut private key":    "-----BEGIN PRIVATE KEY-----\nhunter2",
		"a URL with a user":    `cannot reach https://alice:hunter2@db.internal/x`,
		"a password of ours":   `no user with pa55word-of-url`,
		"single quotes":        `{'secret': 'hunter2'}`,
		"YAML":                 "user: alice\nsession_id: hunter2\n",
		"half a secret in end": strings.Repeat("x ", 2046) + "hunter2",
	}
	for name, body := range bodies {
		request := httptest.NewRequest(http.MethodPost, "https://alice:pa55word-of-url@api.test/hooks/T024F/B77/XyZ12345678901234567890/v?api_key=qu3ry-secret&page=2", nil)
		request.Header.Set("Authorization", "Bearer abc.def-ghi")
		request.Header.Set("Cookie", "theme=dark; session=c00kie-value")
		request.Header.Set("X-Api-Key", "k3y-of-the-call")
		err := classify.Response(&http.Response{StatusCode: 400, Request: request, Body: io.NopCloser(strings.NewReader(body))})
		text := err.Error()
		for _, secret := range []string{"hunter2", "er2 more", "aHVudGVy", "abc.def", "c00kie", "k3y-of", "qu3ry", "pa55word", "eyJ", "XyZ123", "alice:"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %q shows %q", name, text, secret)
			}
		}
		if !strings.HasPrefix(text, "POST https://api.test/hooks/T024F/B77/(not shown)/v: status 400 Bad Request: ") {
			t.Errorf("%s: %q does not say what was called", name, text)
		}
	}
}

// A request with more secrets than are worth looking for shows nothing of its reply.
func TestTooManySecrets(t *testing.T) {
	t.Parallel()
	request := httptest.NewRequest(http.MethodGet, "https://api.test/"+strings.Repeat("x", 600), nil)
	for i := range 300 {
		request.Header.Add("Cookie", fmt.Sprintf("name%d=value%d", i, i))
	}
	err := classify.Response(&http.Response{StatusCode: 500, Request: request, Body: io.NopCloser(strings.NewReader("value299"))})
	if strings.Contains(err.Error(), "value299") || !strings.Contains(err.Error(), "status 500") {
		t.Error(err)
	}
}

func TestExcerptKeepsWhatHelps(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":"no such user","id":"0190a1b2-0000-7000-8000-000000000001"}`: `{"error":"no such user","id":"0190a1b2-0000-7000-8000-000000000001"}`,
		"<html>\r\n<h1>502 Bad\tGateway</h1>":                                  "<html> <h1>502 Bad Gateway</h1>",
		"a\x00b\x1b[31mc\u202ed":                                               "a b [31mc d",
		"bad \xff utf-8":                                                       "bad \uFFFD utf-8",
		strings.Repeat("ä", 400):                                               strings.Repeat("ä", 299) + "…",
	} {
		request := httptest.NewRequest(http.MethodGet, "/users/0190a1b2-0000-7000-8000-000000000001", nil)
		err := classify.Response(&http.Response{StatusCode: 500, Request: request, Body: io.NopCloser(strings.NewReader(body))})
		var status *classify.StatusError
		if !errors.As(err, &status) || status.Excerpt != want {
			t.Errorf("%q became %q, want %q", body, status.Excerpt, want)
		}
	}
}

func TestCompressedBodyIsNotShown(t *testing.T) {
	t.Parallel()
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(500)
		zip := gzip.NewWriter(w)
		io.WriteString(zip, "inner")
		zip.Close()
	})
	if err := get(t, client, server.URL); !strings.HasSuffix(err.Error(), ": inner") {
		t.Errorf("what the transport unpacks: %v", err)
	}
	client.Transport.(*http.Transport).DisableCompression = true
	if err := get(t, client, server.URL); !strings.HasSuffix(err.Error(), ": (a compressed body)") {
		t.Errorf("what it does not: %v", err)
	}
}

// What the standard library really returns when the outside world fails.
func TestRealNetworkErrors(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	plain, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reset" {
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
			return
		}
		<-r.Context().Done()
	})
	t.Cleanup(untrusted.Close)
	for name, row := range map[string]struct {
		url  string
		want pawl.Class
	}{
		"refused":            {"http://" + listener.Addr().String(), transient},
		"reset":              {plain.URL + "/reset", transient},
		"no answer":          {plain.URL + "/hang", transient},
		"an unknown issuer":  {untrusted.URL, transient},
		"TLS to a plain one": {strings.Replace(plain.URL, "http:", "https:", 1), transient},
		"no such host":       {"http://no-such-host.invalid/", transient},
		"malformed":          {"http://a b/", permanent},
		"no scheme":          {"//x/y", permanent},
		"a scheme unknown":   {"gopher://x/y", permanent},
		"no host":            {"http:///x", permanent},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if name == "no answer" {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, row.url, nil)
		if err == nil {
			_, err = client.Do(request)
		}
		if got := classify.Default()(err); got != row.want {
			t.Errorf("%s: %v, want %v (%v)", name, got, row.want, err)
		}
		cancel()
	}
	_, err = tls.DialWithDialer(&net.Dialer{}, "tcp", untrusted.Listener.Addr().String(), &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}, InsecureSkipVerify: true})
	if got := classify.Default()(err); got != transient {
		t.Errorf("a handshake that failed: %v (%v)", got, err)
	}
}

func FuzzResponse(f *testing.F) {
	f.Add(500, `{"password":"hunter2"}`, "https://a:b@c/d?e=f", "Bearer abcdefgh", "12")
	f.Add(404, "\xff\x00", "/x", "", "Sun, 01 Mar 2026 12:00:00 GMT")
	f.Add(429, strings.Repeat("x", 5000), ":", "x", "-")
	f.Fuzz(func(t *testing.T, status int, body, target, authorization, after string) {
		request, err := http.NewRequest(http.MethodGet, target, nil)
		if err == nil {
			request.Header["Authorization"] = []string{authorization}
		}
		header := http.Header{"Retry-After": {after}}
		failure := classify.Response(&http.Response{StatusCode: status, Header: header, Request: request, Body: io.NopCloser(strings.NewReader(body))})
		if (failure == nil) != (status < 300) {
			t.Fatalf("status %d: %v", status, failure)
		}
		if failure == nil {
			return
		}
		if got := pawl.ClassOf(failure); got != classify.HTTPStatus(status) {
			t.Errorf("status %d: %v", status, got)
		}
		var known *classify.StatusError
		if !errors.As(failure, &known) {
			t.Fatalf("not a StatusError: %v", failure)
		}
		for _, text := range []string{known.Excerpt, known.URL} {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\r\x1b") {
				t.Errorf("not one line of text: %q", text)
			}
		}
		if utf8.RuneCountInString(known.Excerpt) > 300 {
			t.Errorf("an excerpt of %d characters", utf8.RuneCountInString(known.Excerpt))
		}
		if len(authorization) >= 12 && authorization != "(not shown)" && strings.Contains(known.Excerpt, authorization) {
			t.Errorf("the excerpt %q shows the credentials %q", known.Excerpt, authorization)
		}
	})
}
