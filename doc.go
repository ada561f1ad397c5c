// Package rulewire is the overview of Rulewire; the code is in the packages below it.
package rulewire
