//! What a store answered, in one line, and whose fault it is.

use std::fmt;

use object_store::Error as StoreError;

/// Bytes of a store's own words that are repeated.
const MOST_BYTES: usize = 600;

/// What a failed request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The store has nothing of that name.
    Missing,
    /// It has, and not for us.
    Denied,
    /// The store or the way to it failed.
    Failed,
}

/// A store's answer to a request that failed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) kind: Kind,
    text: String,
}

impl Answer {
    pub(crate) fn of(error: &StoreError) -> Answer {
        let text = error.to_string();
        // Of a failed listing the library has the status in its text only.
        let has_status = |status: u16| text.contains(&format!("status code: {status} "));
        let kind = match error {
            StoreError::NotFound { .. } => Kind::Missing,
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => Kind::Denied,
            _ if has_status(404) => Kind::Missing,
            _ if has_status(401) || has_status(403) => Kind::Denied,
            _ => Kind::Failed,
        };
        Answer { kind, text: one_line(&text) }
    }

    /// What may help.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.kind {
            Kind::Missing => "compare the bucket's name, AWS_REGION and AWS_ENDPOINT_URL",
            Kind::Denied => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of somebody who may list and read it, or \
                 AWS_SKIP_SIGNATURE=true for a public bucket"
            }
            Kind::Failed => {
                "look at the network, AWS_REGION and AWS_ENDPOINT_URL (plain HTTP needs AWS_ALLOW_HTTP=true), and at \
                 AWS_ACCESS_KEY_ID or AWS_SKIP_SIGNATURE"
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text without line breaks. Where a store answers in XML, the sentence and the code in it take the place of it all.
fn one_line(text: &str) -> String {
    let (before, xml) = text.split_once("<?xml").unwrap_or((text, ""));
    let mut line = before.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(code) = element(xml, "Code") {
        let message = element(xml, "Message").unwrap_or("no message");
        line += &format!(" {message} ({code})");
    }
    if line.len() > MOST_BYTES {
        line.truncate(line.floor_char_boundary(MOST_BYTES));
        line.push('…');
    }
    line
}

/// The text of the first element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    behind.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Answer {
        Answer::of(&StoreError::Generic { store: "S3", source: text.to_owned().into() })
    }

    #[test]
    fn the_sentence_and_the_code_of_an_answer_in_xml_are_said_in_one_line() {
        let answer = generic(
            "Server returned non-2xx status code: 404 Not Found: <?xml version=\"1.0\"?>\n<Error>\n  \
             <Code>NoSuchBucket</Code>\n  <Message>The specified bucket does not exist</Message>\n</Error>",
        );
        assert_eq!(answer.kind, Kind::Missing);
        assert_eq!(
            answer.to_string(),
            "Generic S3 error: Server returned non-2xx status code: 404 Not Found: The specified bucket does not \
             exist (NoSuchBucket)"
        );
        assert!(answer.remedy().contains("AWS_REGION"));
    }

    #[test]
    fn a_refusal_names_the_variables_of_the_keys() {
        for status in ["401 Unauthorized", "403 Forbidden"] {
            let answer = generic(&format!("Server returned non-2xx status code: {status}: "));
            assert_eq!(answer.kind, Kind::Denied);
            assert!(answer.remedy().contains("AWS_SKIP_SIGNATURE=true"));
        }
    }

    #[test]
    fn other_failures_are_nobodys_fault_and_long_ones_are_cut() {
        let answer = generic(&format!("connection\nrefused {}", "ä".repeat(1000)));
        assert_eq!(answer.kind, Kind::Failed);
        let text = answer.to_string();
        assert!(text.starts_with("Generic S3 error: connection refused ä") && text.ends_with('…'), "{text}");
        assert!(text.len() < MOST_BYTES + 10);
    }
}
