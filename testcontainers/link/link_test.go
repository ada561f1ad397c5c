package link

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen; silence is how long nothing must happen. Both are only ever waited for in full by a
// test that fails (patience) or that proves a stall (silence).
const (
	patience = 10 * time.Second
	silence  = 100 * time.Millisecond
)

// echo starts a server that answers each line with the same line after a prefix.
func echo(t *testing.T, prefix string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := io.WriteString(conn, prefix+lines.Text()+"\n"); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return listener.Addr().String()
}

func open(t *testing.T, target string) *Link {
	t.Helper()
	l, err := Listen(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return l
}

// peer is a client's side of a connection.
type peer struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, l *Link) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &peer{t, conn, bufio.NewReader(conn)}
}

func (p *peer) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) line(within time.Duration) (string, error) {
	p.t.Helper()
	if err := p.SetReadDeadline(time.Now().Add(within)); err != nil {
		p.t.Fatal(err)
	}
	text, err := p.lines.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

func (p *peer) want(want string) {
	p.t.Helper()
	got, err := p.line(patience)
	if err != nil || got != want {
		p.t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func (p *peer) wantSilence() {
	p.t.Helper()
	if got, err := p.line(silence); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("got %q, %v; want silence", got, err)
	}
}

func (p *peer) wantBroken() {
	p.t.Helper()
	if got, err := p.line(patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("got %q, %v; want a broken connection", got, err)
	}
}

func wantRefused(t *testing.T, l *Link) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err == nil {
		_ = conn.Close()
		t.Fatal("a connection was let in")
	}
}

// wantDown connects and is broken off: while it still connects, or after.
func wantDown(t *testing.T, l *Link) {
	t.Helper()
	if conn, err := net.Dial("tcp", l.Addr()); err == nil {
		(&peer{t, conn, bufio.NewReader(conn)}).wantBroken()
		_ = conn.Close()
	}
}

func TestLinkCarriesBothWays(t *testing.T) {
	l := open(t, echo(t, "a:"))
	p := dial(t, l)
	p.send("one")
	p.want("a:one")
	p.send("two")
	p.want("a:two")
	got := l.Stats()
	if got.Accepted != 1 || got.Open != 1 || got.UpBytes != 8 || got.UpChunks != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestLinkCarriesTheEndOfAStream(t *testing.T) {
	l := open(t, echo(t, ""))
	p := dial(t, l)
	p.send("last")
	if err := p.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	p.want("last")
	if _, err := p.line(patience); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}

func TestCutBreaksOldAndNewUntilHeal(t *testing.T) {
	l := open(t, echo(t, ""))
	p := dial(t, l)
	p.send("one")
	p.want("one")
	l.Cut()
	p.wantBroken()
	wantRefused(t, l)
	l.Heal()
	q := dial(t, l)
	q.send("two")
	q.want("two")
}

func TestRefuseIsAboutNewConnectionsAndOutlastsHeal(t *testing.T) {
	l := open(t, echo(t, ""))
	p := dial(t, l)
	p.send("one")
	p.want("one")
	l.Refuse()
	wantRefused(t, l)
	p.send("two")
	p.want("two")
	l.Cut()
	p.wantBroken()
	l.Heal()
	wantRefused(t, l)
	l.Admit()
	q := dial(t, l)
	q.send("three")
	q.want("three")
}

func TestStallIsSilentAndLosesNothing(t *testing.T) {
	for name, d := range map[string]Direction{"up": Up, "down": Down, "both": Both} {
		t.Run(name, func(t *testing.T) {
			l := open(t, echo(t, ""))
			p := dial(t, l)
			p.send("one")
			p.want("one")
			l.Stall(d)
			p.send("two")
			p.wantSilence()
			l.Heal()
			p.want("two")
		})
	}
}

func TestStallHoldsNewConnections(t *testing.T) {
	l := open(t, echo(t, ""))
	l.Stall(Both)
	p := dial(t, l)
	p.send("one")
	p.wantSilence()
	l.Heal()
	p.want("one")
}

func TestStalledConnectionCanBeReset(t *testing.T) {
	l := open(t, echo(t, ""))
	p := dial(t, l)
	p.send("one")
	p.want("one")
	l.Stall(Both)
	l.Reset()
	p.wantBroken()
}

func TestDelayIsALatencyNotALimit(t *testing.T) {
	l := open(t, echo(t, ""))
	p := dial(t, l)
	p.send("warm")
	p.want("warm")
	const delay, lines = 50 * time.Millisecond, 20
	l.Delay(delay)
	start := time.Now()
	for range lines {
		p.send("x")
	}
	p.want("x")
	if d := time.Since(start); d < 2*delay {
		t.Errorf("the first answer took %s, want at least %s", d, 2*delay)
	}
	for range lines - 1 {
		p.want("x")
	}
	if d := time.Since(start); d >= lines*delay {
		t.Errorf("%d answers took %s: the delays added up", lines, d)
	}
}

func TestResetLetsNewConnectionsIn(t *testing.T) {
	l := open(t, echo(t, ""))
	p := dial(t, l)
	p.send("one")
	p.want("one")
	l.Reset()
	p.wantBroken()
	q := dial(t, l)
	q.send("two")
	q.want("two")
}

func TestSetTargetMovesNewConnections(t *testing.T) {
	l := open(t, echo(t, "a:"))
	p := dial(t, l)
	p.send("one")
	p.want("a:one")
	l.SetTarget(echo(t, "b:"))
	p.send("two")
	p.want("a:two")
	q := dial(t, l)
	q.send("three")
	q.want("b:three")
}

func TestServerDownBreaksTheConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := listener.Addr().String()
	_ = listener.Close()
	l := open(t, target)
	wantDown(t, l)
	if got := l.Stats(); got.DialErrors != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestCloseInEveryState(t *testing.T) {
	for name, before := range map[string]func(*Link){
		"plain":   func(*Link) {},
		"cut":     (*Link).Cut,
		"refused": (*Link).Refuse,
		"stalled": func(l *Link) { l.Stall(Both) },
		"delayed": func(l *Link) { l.Delay(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, echo(t, ""))
			p := dial(t, l)
			p.send("one")
			p.want("one")
			before(l)
			if name == "stalled" || name == "delayed" {
				p.send("two")
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			p.wantBroken()
			if err := l.Close(); !errors.Is(err, ErrClosed) {
				t.Errorf("second Close: %v", err)
			}
		})
	}
}

func TestManyClientsInAStormOfFaults(t *testing.T) {
	l := open(t, echo(t, ""))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				conn, err := net.Dial("tcp", l.Addr())
				if err != nil {
					continue // Cut while it connected.
				}
				_ = conn.SetDeadline(time.Now().Add(patience))
				_, _ = io.WriteString(conn, "x\n")
				_, err = bufio.NewReader(conn).ReadString('\n')
				_ = conn.Close()
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("a connection hung")
				}
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			l.Cut()
			l.Heal()
			l.Stall(Both)
			l.Reset()
			l.Heal()
		}
	})
	wg.Wait()
	p := dial(t, l)
	p.send("after")
	p.want("after")
}
