package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Service answers requests of one kind for as long as a session lasts, beside each other.
type Service interface {
	// Answer does what is asked for, until ctx ends. What it returns is written as JSON.
	Answer(ctx context.Context, what string, body json.RawMessage) (any, error)
	// Close ends all that answers have begun.
	Close() error
}

// Services begin services by their name.
type Services map[string]func(Limits) Service

// With reads the body of what is asked and does it.
func With[Q, A any](what string, body json.RawMessage, do func(Q) (A, error)) (any, error) {
	var q Q
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fmt.Errorf("request %s: %w", what, err)
	}
	return do(q)
}

// question is for a service.
type question struct {
	Service string          `json:"service"`
	What    string          `json:"what"`
	Body    json.RawMessage `json:"body"`
}

// services are those of a session.
type services struct {
	limits Limits
	known  Services

	mu     sync.Mutex
	made   map[string]Service
	closed bool
}

func (s *services) answer(ctx context.Context, q question) (any, error) {
	service, err := s.service(q.Service)
	if err != nil {
		return nil, err
	}
	return service.Answer(ctx, q.What, q.Body)
}

func (s *services) service(name string) (Service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if service, ok := s.made[name]; ok {
		return service, nil
	}
	begin, ok := s.known[name]
	switch {
	case s.closed:
		return nil, errors.New("the session ends")
	case !ok:
		return nil, fmt.Errorf("this agent knows no service %q", name)
	}
	if s.made == nil {
		s.made = map[string]Service{}
	}
	s.made[name] = begin(s.limits)
	return s.made[name], nil
}

// close ends all services. It may be called again.
func (s *services) close() error {
	s.mu.Lock()
	made := s.made
	s.made, s.closed = nil, true
	s.mu.Unlock()
	var errs []error
	for _, service := range made {
		errs = append(errs, service.Close())
	}
	return errors.Join(errs...)
}

// Ask asks a service of the agent and reads its answer into answer, unless that is nil.
func (s *Session) Ask(ctx context.Context, service, what string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.call(ctx, opAsk, question{Service: service, What: what, Body: data}, answer)
}
