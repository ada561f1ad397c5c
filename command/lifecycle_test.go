package command_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
)

func TestAPortThatIsTakenLeadsToTheNextFreeOne(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, text, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if port > 65000 {
		t.Skip("no ports above")
	}
	p := start(t, datasourcetest.NewStore(), command.Address(taken.Addr().String()))
	_, text, err = net.SplitHostPort(p.centre.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := strconv.Atoi(text); err != nil || got <= port || got > port+100 {
		t.Errorf("port %d, taken %d", got, port)
	}
	exact, err := command.New(command.Address(taken.Addr().String()), command.ExactPort(), command.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := exact.Start(t.Context()); err == nil {
		t.Error("started")
	}
	if err := exact.Close(); err != nil {
		t.Error(err)
	}
}

func TestACentreCanBeClosedInEveryState(t *testing.T) {
	c, err := command.New(command.Address("127.0.0.1:0"), command.Logger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr() != nil {
		t.Error("an address before Start")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Start(t.Context()); !errors.Is(err, command.ErrStarted) {
		t.Errorf("got %v", err)
	}
	if c, err = command.New(command.Address("127.0.0.1:0"), command.Logger(nil)); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); !errors.Is(err, command.ErrStarted) {
		t.Errorf("got %v", err)
	}
	var closes sync.WaitGroup
	for range 4 {
		closes.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closes.Wait()
}

func TestCloseWaitsForTheRequestUnderWay(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	p := start(t, datasourcetest.NewStore(), command.Handle(command.Command{Name: "slow", Run: func(context.Context, *command.Request) (command.Answer, error) {
		close(entered)
		<-leave
		return command.Text("done"), nil
	}}))
	answer := make(chan string, 1)
	tr := &http.Transport{DisableKeepAlives: true}
	go func() {
		resp, err := (&http.Client{Transport: tr}).Get(p.url + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			answer <- err.Error()
		}
		answer <- string(body)
	}()
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- p.centre.Close() }()
	until(t, "the port is closed", func() bool {
		conn, err := net.Dial("tcp", p.centre.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(leave)
	if got := <-answer; got != "done" {
		t.Errorf("answer %q", got)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestMoreConnectionsThanAllowedWait(t *testing.T) {
	p := start(t, datasourcetest.NewStore(), command.MaxConns(1))
	idle, err := net.Dial("tcp", p.centre.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The one place is taken until the silent client has had its 3 s.
	if status, _ := p.get("/version"); status != 200 {
		t.Errorf("%d", status)
	}
	idle.Close()
}
