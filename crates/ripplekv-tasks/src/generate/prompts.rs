//! Our own prompt texts and answer lengths, in the shape of LongBench's two config files.

/// A generated task's prompt; the length is the task table's.
pub(super) struct PromptText {
    pub(super) task: &'static str,
    pub(super) template: &'static str,
}

pub(super) const PROMPTS: &[PromptText] = &[
    PromptText {
        task: "logbook_qa",
        template: "Here is the logbook of a small house.\n\n{context}\n\nUse the logbook above to answer one question. Give only the answer, in a few words.\n\nQuestion: {input}\nAnswer:",
    },
    PromptText {
        task: "dossier_qa",
        template: "Here are several passages about people.\n\n{context}\n\nUse the passages above to answer a question with two parts. Give only the two answers, in a few words.\n\nQuestion: {input}\nAnswer:",
    },
    PromptText {
        task: "minutes_sum",
        template: "Here are the minutes of a meeting. Three decisions were made in it.\n\n{context}\n\nWhat are the three decisions? Begin each with \"We will\".",
    },
    PromptText {
        task: "ticket_class",
        template: "Every repair ticket goes to one team.\n\n{context}\n{input}",
    },
    PromptText {
        task: "paragraph_find",
        template: "Here are several paragraphs.\n\n{context}\n\nUse the paragraphs above to answer one question. Give only the word Paragraph and its number.\n\nQuestion: {input}\nAnswer:",
    },
    PromptText {
        task: "module_line",
        template: "{context}",
    },
    PromptText {
        task: "order_table",
        template: "Here is the order book of a village shop, as a table.\n\n{context}\n\nUse the table above to answer one question. Give only the answer, in a few words.\n\nQuestion: {input}\nAnswer:",
    },
];
